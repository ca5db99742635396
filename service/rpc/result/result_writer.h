// Turns a published result into the messages of an answer: one header, then chunks of the answer's
// byte string (for each tensor: indices, then values). Used by GetAggregate, ReadResult and Reduce.
// Arrays that the result has in the requested form are sent without a copy.
//
// A dense tensor in the answer has sparse_dim 0, nnz 1 and no indices. With a selection of n rows
// its shape is [n, the dimensions of a row].
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_RESULT_WRITER_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_RESULT_WRITER_H_

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/result/result_source.h"
#include "service/engine/types.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

inline constexpr uint32_t kChunkBytesDefault = uint32_t{1}
                                               << 20;  // best of 64 KiB to 4 MiB by measurement
inline constexpr uint32_t kChunkBytesMax = uint32_t{4} << 20;

// Returns the bytes of a chunk that a request wants: 0 is the default, more than the maximum is it.
constexpr uint32_t ChunkBytes(uint32_t wanted) {
  return wanted == 0 ? kChunkBytesDefault : std::min(wanted, kChunkBytesMax);
}

// For one thread at a time. The writer and each of its messages keep the result alive.
class ResultWriter {
 public:
  // INVALID_ARGUMENT: UNKNOWN_TENSOR, DUPLICATE_TENSOR, UNKNOWN_ENCODING, UNKNOWN_RESULT_LAYOUT,
  // RESULT_TOO_LARGE (a dense answer above `dense_bytes_max`), and the errors of SelectedRows(). A
  // larger chunk size than kChunkBytesMax becomes kChunkBytesMax.
  static absl::StatusOr<std::unique_ptr<ResultWriter>> Make(
      std::shared_ptr<const PublishedResult> result, const v1::GetAggregateRequest& request,
      uint64_t dense_bytes_max);

  // Makes the next message, a Response. Returns false when there are no more.
  template <typename Response>
  bool Next(grpc::ByteBuffer& message);

  // Makes the ReadResultResponse with `bytes` bytes from `offset` on (0: kChunkBytesDefault; at
  // most kChunkBytesMax, and what is left). INVALID_ARGUMENT (OFFSET_OUT_OF_RANGE). REQUIRES:
  // Next() was not called.
  absl::Status ReadAt(uint64_t offset, uint32_t bytes, grpc::ByteBuffer& message);

 private:
  struct Part {
    const ByteSource* source;
    uint64_t offset;
    size_t bytes;
  };

  ResultWriter() = default;
  absl::Status AddTensor(size_t position, const v1::IndexSelection* selection,
                         v1::ResultLayout layout);
  std::unique_ptr<ByteSource> Indices(size_t position, const std::vector<uint64_t>* positions,
                                      v1::TensorHeader& header) const;
  void AddSparse(size_t position, const std::vector<uint64_t>* rows, v1::TensorHeader& header);
  absl::Status AddDense(size_t position, const std::vector<uint64_t>* rows,
                        v1::TensorHeader& header);
  bool NextChunk(int chunk_field, grpc::ByteBuffer& message);
  void AppendChunk(int chunk_field, const std::vector<Part>& parts,
                   std::vector<grpc::Slice>& slices);
  std::vector<Part> TakeParts();
  static bool IsSentFromMemory(const Part& part);
  grpc::Slice View(const Part& part) const;

  std::shared_ptr<const PublishedResult> result_;
  std::string_view encoding_;  // requested
  v1::AggregateHeader header_;
  std::vector<std::unique_ptr<ByteSource>> sources_;  // the answer's byte string in order
  uint64_t chunk_bytes_ = kChunkBytesDefault;
  uint64_t dense_bytes_left_ = 0;
  bool header_sent_ = false;
  size_t source_ = 0;           // next to read, in sources_
  uint64_t source_offset_ = 0;  // in that source
  uint64_t offset_ = 0;         // in the answer's byte string
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_RESULT_WRITER_H_
