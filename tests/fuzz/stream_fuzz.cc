// The messages of one StreamUpdates call, as its handler (service/rpc/stream/stream_updates.cc)
// treats them, one after the other: updates whole and in chunks, of any sizes and in any order.
//
//   input := (u16 length, that many bytes of a StreamUpdatesRequest)*
#include "service/rpc/stream/stream_uploads.h"
#include "service/rpc/wire/update_proto.h"
#include "tests/fuzz/engine_target.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/silence_protobuf.h"

namespace sparseagg::fuzz {
namespace {

class Stream {
 public:
  explicit Stream(EngineTarget& target) : target_(target), engine_(target.EngineWithRound()) {}

  void Handle(const ReceivedStreamMessage& message) {
    if (const auto* update = std::get_if<ReceivedUpdate>(&message.body)) Update(*update);
    if (const auto* batch = std::get_if<ReceivedBatch>(&message.body)) {
      for (const ReceivedUpdate& update : *batch) Update(update);
    }
    if (const auto* begin = std::get_if<v1::BeginUpdate>(&message.body)) Begin(*begin);
    if (const auto* chunk = std::get_if<ReceivedChunk>(&message.body)) Chunk(*chunk);
  }
  void End() {
    for (const auto& [update_id, error] : uploads_.TakeIncomplete()) {
      Require(!error.ok(), "an incomplete upload without an error");
    }
  }

 private:
  void Update(const ReceivedUpdate& update) {
    const auto tensors = EncodedTensorsOf(update);
    if (!tensors.ok()) return;
    const UpdateHeader header = FromProto(update.header);
    target_.Note(header, engine_.Submit(header, *tensors));
  }
  void Begin(const v1::BeginUpdate& begin) {
    const UpdateHeader header = FromProto(begin.header());
    if (!uploads_.CheckId(header).ok()) return;
    auto tensors = HeadersOf(begin);
    if (!tensors.ok()) return;
    auto upload = engine_.BeginUpload(header, *std::move(tensors));
    if (!upload.ok()) return;
    const uint64_t committed = (*upload)->committed_offset();
    Require(committed <= (*upload)->total_bytes(), "more bytes than the update has");
    headers_[header.update_id] = header;
    uploads_.Insert(header, *upload);
    if (committed < (*upload)->total_bytes()) return;
    uploads_.Erase(header.update_id);
    target_.Note(header, (*upload)->Finish());
  }
  void Chunk(const ReceivedChunk& chunk) {
    const auto complete = uploads_.Append(chunk);
    if (!complete.ok() || complete->upload == nullptr) return;
    target_.Note(headers_[chunk.update_id], complete->upload->Finish());
  }

  EngineTarget& target_;
  Engine& engine_;
  StreamUploads uploads_;
  std::map<std::string, UpdateHeader> headers_;
};

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  static fuzz::EngineTarget target;
  fuzz::SilenceProtobuf();
  fuzz::FuzzInput input(data, size);
  fuzz::Stream stream(target);
  while (input.left() > 0) {
    const std::string_view bytes = input.Bytes(input.Take<uint16_t>());
    // In two pieces, as a network might cut them.
    const std::string_view pieces[] = {bytes.substr(0, bytes.size() / 3),
                                       bytes.substr(bytes.size() / 3)};
    const auto message = ReadStreamUpdates(pieces);
    if (!message.ok()) break;
    stream.Handle(*message);
  }
  stream.End();
  target.CheckBooks();
  return 0;
}
