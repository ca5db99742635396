#include "bench/ingest/frames.h"

#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bench/round_calls.h"
#include "proto/chunk_head.h"
#include "proto/convert.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::bench {
namespace {

// A StreamUpdatesRequest with a chunk whose data stays where it is.
grpc::ByteBuffer ChunkFrame(const std::string& update_id, uint64_t offset,
                            const grpc::Slice& data) {
  v1::UpdateChunk chunk;
  chunk.set_update_id(update_id);
  chunk.set_offset(offset);
  const grpc::Slice head(ChunkHead(v1::StreamUpdatesRequest::kChunkFieldNumber, chunk,
                                   v1::UpdateChunk::kDataFieldNumber, data.size()));
  const grpc::Slice slices[] = {head, data};
  return grpc::ByteBuffer(slices, 2);
}

grpc::ByteBuffer WholeFrame(const v1::StreamUpdatesRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

v1::UpdateHeader HeaderOf(const std::string& round, int64_t contributor) {
  v1::UpdateHeader header;
  header.set_round(round);
  header.set_contributor(absl::StrCat("contributor-", contributor));
  header.set_update_id(absl::StrCat("update-", contributor));
  return header;
}

std::vector<grpc::Slice> Cut(const Payload& payload, size_t chunk_bytes) {
  const std::string bytes = payload.indices + payload.values;
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    slices.emplace_back(bytes.data() + at, std::min(chunk_bytes, bytes.size() - at));
  }
  return slices;
}

std::vector<grpc::ByteBuffer> InChunks(const std::vector<Payload>& payloads, int64_t updates,
                                       const std::string& round, size_t chunk_bytes,
                                       int64_t first) {
  std::vector<std::vector<grpc::Slice>> cut;
  for (const Payload& payload : payloads) cut.push_back(Cut(payload, chunk_bytes));
  std::vector<grpc::ByteBuffer> frames;
  for (int64_t i = 0; i < updates; ++i) {
    const size_t turn = static_cast<size_t>(i) % payloads.size();
    const v1::UpdateHeader header = HeaderOf(round, first + i);
    v1::StreamUpdatesRequest request;
    request.set_takes_more(true);
    *request.mutable_begin()->mutable_header() = header;
    *request.mutable_begin()->add_tensors() = ToProto(payloads[turn].header);
    frames.push_back(WholeFrame(request));
    uint64_t offset = 0;
    for (const grpc::Slice& data : cut[turn]) {
      frames.push_back(ChunkFrame(header.update_id(), offset, data));
      offset += data.size();
    }
  }
  return frames;
}

// Whole updates, `batch` in a message.
std::vector<grpc::ByteBuffer> Whole(const std::vector<Payload>& payloads, int64_t updates,
                                    const std::string& round, int64_t batch, int64_t first) {
  std::vector<grpc::ByteBuffer> frames;
  for (int64_t i = 0; i < updates; i += batch) {
    v1::StreamUpdatesRequest request;
    request.set_takes_more(true);
    for (int64_t u = i; u < std::min(i + batch, updates); ++u) {
      const Payload& payload = payloads[static_cast<size_t>(u) % payloads.size()];
      (batch == 1 ? *request.mutable_update() : *request.mutable_batch()->add_updates()) =
          MakeUnary(payload, round, first + u);
    }
    frames.push_back(WholeFrame(request));
  }
  return frames;
}

// What gRPC's generated stubs do, without the messages' classes.
using RawStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

std::unique_ptr<RawStream> OpenStream(grpc::Channel& channel, grpc::ClientContext& context) {
  static const grpc::internal::RpcMethod kMethod("/sparseagg.v1.AggregationService/StreamUpdates",
                                                 grpc::internal::RpcMethod::BIDI_STREAMING);
  return std::unique_ptr<RawStream>(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          &channel, kMethod, &context));
}

}  // namespace

Payload RawPayload(const std::vector<int64_t>& indices, const std::vector<float>& values,
                   int64_t rows) {
  Payload payload;
  payload.indices.assign(reinterpret_cast<const char*>(indices.data()), indices.size() * 8);
  payload.values.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  payload.header = {.name = "emb",
                    .dense_shape = {rows, static_cast<int64_t>(values.size() / indices.size())},
                    .sparse_dim = 1,
                    .nnz = indices.size(),
                    .indices_bytes = payload.indices.size(),
                    .values_bytes = payload.values.size()};
  return payload;
}

v1::SubmitUpdateRequest MakeUnary(const Payload& payload, const std::string& round,
                                  int64_t contributor) {
  v1::SubmitUpdateRequest update;
  *update.mutable_header() = HeaderOf(round, contributor);
  v1::Tensor& tensor = *update.add_tensors();
  *tensor.mutable_header() = ToProto(payload.header);
  tensor.set_indices(payload.indices);
  tensor.set_values(payload.values);
  return update;
}

std::vector<grpc::ByteBuffer> MakeFrames(const std::vector<Payload>& payloads, int64_t updates,
                                         const std::string& round, Framing framing, int64_t first) {
  return framing.chunk_bytes > 0 ? InChunks(payloads, updates, round, framing.chunk_bytes, first)
                                 : Whole(payloads, updates, round, framing.batch_updates, first);
}

double SendFrames(grpc::Channel& channel, const std::vector<grpc::ByteBuffer>& frames) {
  constexpr size_t kSmallFrame = 4096;  // gRPC may send several together
  grpc::ClientContext context;
  const auto start = std::chrono::steady_clock::now();
  const auto stream = OpenStream(channel, context);
  std::thread reader([&] {
    grpc::ByteBuffer answer;
    while (stream->Read(&answer)) {
    }
  });
  for (const grpc::ByteBuffer& frame : frames) {
    auto options = grpc::WriteOptions();
    if (frame.Length() < kSmallFrame && &frame != &frames.back()) options.set_buffer_hint();
    if (!stream->Write(frame, options)) break;
  }
  stream->WritesDone();
  reader.join();
  Check(stream->Finish(), "StreamUpdates");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace sparseagg::bench
