#include "service/rpc/stream/stream_messages.h"

#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "service/engine/partial/partial_body.h"
#include "service/rpc/wire/update_proto.h"
#include "sparse/byte_chain.h"

namespace sparseagg {
namespace {

// The memory that keeping the update takes: its part of the message, and the parsed form.
uint64_t BytesKept(const ReceivedUpdate& update) {
  uint64_t bytes = BytesHeld(update) + update.header.ByteSizeLong();
  for (const ReceivedUpdate::Tensor& tensor : update.tensors) {
    bytes += tensor.header.ByteSizeLong() + TotalBytes(tensor.indices) + TotalBytes(tensor.values);
  }
  return bytes;
}

}  // namespace

StreamMessages::StreamMessages(const AuthorisedCall& call, Background& background,
                               Background& commits, MessageStream& stream)
    : call_(call),
      engine_(*call.engine),
      background_(background),
      commits_(commits),
      stream_(stream) {}

bool StreamMessages::Handle(MessageBytes bytes, ReceivedStreamMessage message) {
  if (auto* update = std::get_if<ReceivedUpdate>(&message.body)) {
    ReceivedBatch one;
    one.push_back(std::move(*update));
    HandleWhole(std::move(bytes), std::move(one));
  } else if (auto* batch = std::get_if<ReceivedBatch>(&message.body)) {
    HandleWhole(std::move(bytes), std::move(*batch));
  } else if (const auto* begin = std::get_if<v1::BeginUpdate>(&message.body)) {
    return stream_.RunInTurn(engine_.WaitsForDisk(begin->header().round()),
                             [this, begin = *begin] { HandleBegin(begin); });
  } else if (const auto* chunk = std::get_if<ReceivedChunk>(&message.body)) {
    return stream_.RunInTurn(
        uploads_.WaitsForDisk(chunk->update_id),
        [this, chunk = *chunk, bytes = std::make_shared<MessageBytes>(std::move(bytes))] {
          HandleChunk(chunk);
        });
  } else {
    Answer("", MakeError(absl::StatusCode::kInvalidArgument, "EMPTY_MESSAGE",
                         "a message of the stream has no body; set update, batch, begin or chunk"));
  }
  return true;
}

void StreamMessages::HandleWhole(MessageBytes bytes, ReceivedBatch updates) {
  const auto kept = std::make_shared<std::pair<MessageBytes, ReceivedBatch>>(std::move(bytes),
                                                                             std::move(updates));
  const std::string* round = nullptr;  // of the previous update
  bool waits_for_disk = false;
  for (const ReceivedUpdate& update : kept->second) {
    if (round == nullptr || *round != update.header.round()) {
      round = &update.header.round();
      waits_for_disk = engine_.WaitsForDisk(*round);
    }
    if (!waits_for_disk) {
      Answer(update.header.update_id(), Submit(update), ResponseQueue::kMayWait);
      continue;
    }
    stream_.RunJob(commits_, BytesKept(update), [this, kept, &update] {
      stream_.AnswerFromJob(ToAnswer(update.header.update_id(), Submit(update)),
                            ResponseQueue::kMayWait);
    });
  }
}

absl::StatusOr<Receipt> StreamMessages::Submit(const ReceivedUpdate& update) {
  SPARSEAGG_RETURN_IF_ERROR(
      call_.CheckContributor(update.header.round(), update.header.contributor()));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto tensors, EncodedTensorsOf(update));
  SPARSEAGG_RETURN_IF_ERROR(call_.CheckBody(IsPartialBody(tensors)));
  return engine_.Submit(FromProto(update.header), tensors);
}

void StreamMessages::HandleBegin(const v1::BeginUpdate& message) {
  const std::string& update_id = message.header().update_id();
  absl::StatusOr<std::shared_ptr<Upload>> upload = BeginUpload(message);
  if (!upload.ok()) return Refuse(update_id, upload.status());
  v1::StreamUpdatesResponse response;
  response.set_update_id(update_id);
  response.mutable_progress()->set_committed_offset((*upload)->committed_offset());
  stream_.Answer(std::move(response), ResponseQueue::kAtOnce);
  // Nothing is missing: an update without entries, or one that was counted before.
  if ((*upload)->committed_offset() == (*upload)->total_bytes()) {
    uploads_.Erase(update_id);
    Finish(message.header().round(), update_id, *std::move(upload));
  }
}

absl::StatusOr<std::shared_ptr<Upload>> StreamMessages::BeginUpload(
    const v1::BeginUpdate& message) {
  const UpdateHeader header = FromProto(message.header());
  SPARSEAGG_RETURN_IF_ERROR(call_.CheckContributor(header.round, header.contributor));
  SPARSEAGG_RETURN_IF_ERROR(uploads_.CheckId(header));
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<EncodedHeader> tensors, HeadersOf(message));
  SPARSEAGG_RETURN_IF_ERROR(call_.CheckBody(IsPartialBody(tensors)));
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Upload> upload,
                             engine_.BeginUpload(header, std::move(tensors)));
  refused_.Remove(header.update_id);
  uploads_.Insert(header, upload);
  return upload;
}

void StreamMessages::HandleChunk(const ReceivedChunk& chunk) {
  if (refused_.Contains(chunk.update_id)) return;
  absl::StatusOr<StreamUploads::Complete> complete = uploads_.Append(chunk);
  if (!complete.ok()) return Refuse(chunk.update_id, complete.status());
  if (complete->upload == nullptr) return;
  Finish(complete->round, chunk.update_id, std::move(complete->upload));
}

void StreamMessages::Finish(const std::string& round, const std::string& update_id,
                            std::shared_ptr<Upload> upload) {
  const bool waits_for_disk = engine_.WaitsForDisk(round);
  if (!waits_for_disk && upload->arrived()) return Answer(update_id, upload->Finish());
  Background& background = waits_for_disk ? commits_ : background_;
  const uint64_t bytes = upload->total_bytes();
  stream_.RunJob(background, bytes, [this, update_id, upload = std::move(upload)]() mutable {
    absl::StatusOr<Receipt> receipt = upload->Finish();
    upload.reset();
    stream_.AnswerFromJob(ToAnswer(update_id, std::move(receipt)), ResponseQueue::kAtOnce);
  });
}

void StreamMessages::RefuseUploads(const absl::Status& why) {
  for (const std::string& update_id : uploads_.RefuseAll(why)) Refuse(update_id, why);
}

void StreamMessages::End() {
  for (const auto& [update_id, error] : uploads_.TakeIncomplete()) Answer(update_id, error);
}

// Answers with an error that ends an update, whose later chunks may still arrive.
void StreamMessages::Refuse(const std::string& update_id, const absl::Status& error) {
  if (!uploads_.Contains(update_id)) refused_.Add(update_id);
  Answer(update_id, error);
}

void StreamMessages::Answer(const std::string& update_id, absl::StatusOr<Receipt> outcome,
                            ResponseQueue::When when) {
  stream_.Answer(ToAnswer(update_id, std::move(outcome)), when);
}

}  // namespace sparseagg
