// Describes an update before it is decoded: it matches its tensors to those of the round, computes
// the memory that it will take, and computes the digest that identifies it.
#ifndef SPARSEAGG_SERVICE_ENGINE_INGEST_UPDATE_H_
#define SPARSEAGG_SERVICE_ENGINE_INGEST_UPDATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/limits.h"
#include "service/engine/types.h"
#include "service/store/checksums/array_sum.h"

namespace sparseagg {

// The headers of an update, checked against the round's specification and the limits.
struct UpdateLayout {
  std::vector<size_t> order;   // [tensors of the spec]: position of the tensor in the update
  uint64_t payload_bytes = 0;  // as sent
  // Decoded size: 8 bytes for each index, the values, and a StagedUpdate for each tensor.
  uint64_t staged_bytes = 0;
};

// As MakeUpdateLayout(), and accepts partial aggregates (partial/partial_body.h); what they are of
// is known when they are read.
absl::StatusOr<UpdateLayout> MakeBodyLayout(const RoundSpec& spec,
                                            std::span<const EncodedHeader> headers,
                                            const Limits& limits);

// Checks the headers without reading a payload. Errors are INVALID_ARGUMENT: UNKNOWN_TENSOR,
// DUPLICATE_TENSOR, MISSING_TENSOR, those of InspectTensor(), and UPDATE_TOO_LARGE beyond
// update_bytes_max or update_nnz_max.
absl::StatusOr<UpdateLayout> MakeUpdateLayout(const RoundSpec& spec,
                                              std::span<const EncodedHeader> headers,
                                              const Limits& limits);

// Returns the headers of `tensors`, in the same order.
std::vector<EncodedHeader> HeadersOf(std::span<const EncodedTensor> tensors);

// Divides a byte string, given in pieces of any length, into the tensors of an update: for each
// tensor the indices, then the values.
class SplitPayload {
 public:
  // REQUIRES: the pieces have as many bytes as the headers state. The bytes must outlive this
  // object.
  SplitPayload(std::span<const EncodedHeader> headers, std::span<const std::string_view> bytes);
  // Valid as long as this object.
  std::span<const EncodedTensor> tensors() const { return tensors_; }

 private:
  std::vector<std::string_view> pieces_;
  std::vector<EncodedTensor> tensors_;
};

// The body of an update as it was received.
class ArrivingUpdate;
struct UpdateBody {
  std::span<const EncodedTensor> tensors;  // headers only, if `arrived` is set
  UploadPayload* stored = nullptr;         // the payload, if the store has it already
  ArrivingUpdate* arrived = nullptr;       // the entries, if they were decoded on arrival
};

// Returns INVALID_ARGUMENT (SIZE_MISMATCH) unless each chain is as long as its header states.
absl::Status CheckPayloadSizes(std::span<const EncodedTensor> tensors);

// The checksums of a tensor's arrays, as they enter the digest of an update.
struct TensorSums {
  ArraySum indices;
  ArraySum values;
};
std::vector<TensorSums> SumsOf(std::span<const EncodedTensor> tensors);

// The digest that identifies an update, whatever the order of its tensors:
//
//   digest := SHA-256( u32 bits of the weight, u64 number of tensors, tensor* )
//             tensors in the order of the specification
//   tensor := name encoding u32(value type) u32(index type) u32(sparse_dim) u64(rank)
//             u64(dimension)* u64(nnz) indices values
//   name, encoding, indices, values := u64 length, bytes
//   encoding is followed by "/" and the values encoding where there is one
//
// For rounds of durability `memory`, QuickDigest (service/store/checksums/array_sum.h) replaces
// SHA-256, and checksums replace the arrays:
//
//   indices, values := u64 length, u64 XXH3 (0 if the length is 0)
std::string UpdateDigest(float weight, std::span<const EncodedTensor> tensors,
                         std::span<const size_t> order);
std::string QuickUpdateDigest(float weight, std::span<const EncodedTensor> tensors,
                              std::span<const TensorSums> sums, std::span<const size_t> order);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_UPDATE_H_
