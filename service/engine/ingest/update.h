// An update before it is decoded: which of its tensors is which of the round's, how much memory it
// will take, and the digest that identifies it.
#ifndef SPARSEAGG_SERVICE_ENGINE_INGEST_UPDATE_H_
#define SPARSEAGG_SERVICE_ENGINE_INGEST_UPDATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/engine.h"
#include "service/store/checksums/array_sum.h"

namespace sparseagg {

// What the headers of an update say, checked against the round's specification and the limits.
struct UpdatePlan {
  std::vector<size_t> order;   // [tensors of the spec]: where the update has the tensor
  uint64_t payload_bytes = 0;  // as sent
  uint64_t staged_bytes = 0;   // decoded: 8 bytes for each index, the values, and the bookkeeping
};

// Reads no payload. INVALID_ARGUMENT: UNKNOWN_TENSOR, DUPLICATE_TENSOR, MISSING_TENSOR, everything
// of InspectTensor(), and UPDATE_TOO_LARGE beyond update_bytes_max or update_nnz_max.
absl::StatusOr<UpdatePlan> PlanUpdate(const RoundSpec& spec, std::span<const EncodedHeader> headers,
                                      const Limits& limits);

// The headers of `tensors`, in their order.
std::vector<EncodedHeader> HeadersOf(std::span<const EncodedTensor> tensors);

// A byte string, in pieces of any length, cut into the tensors of an update: for each, indices,
// then values.
class CutPayload {
 public:
  // REQUIRES: the pieces have as many bytes as the headers say. They must outlive this.
  CutPayload(std::span<const EncodedHeader> headers, std::span<const std::string_view> bytes);
  // As long as this lives.
  std::span<const EncodedTensor> tensors() const { return tensors_; }

 private:
  std::vector<std::string_view> pieces_;
  std::vector<EncodedTensor> tensors_;
};

// What has come of an update.
class ArrivingUpdate;
struct UpdateBody {
  std::span<const EncodedTensor> tensors;  // headers only, if it has arrived
  PartialPayload* stored = nullptr;        // where the store has the payload already
  ArrivingUpdate* arrived = nullptr;       // what was decoded of it as it came
};

// Each chain is as long as its header says (SIZE_MISMATCH).
absl::Status CheckPayloadSizes(std::span<const EncodedTensor> tensors);

// What the digest of an update has of its arrays.
struct TensorSums {
  ArraySum indices;
  ArraySum values;
};
std::vector<TensorSums> SumsOf(std::span<const EncodedTensor> tensors);

// Identity of an update, the same whatever the order of its tensors:
//
//   digest := SHA-256( u32 bits of the weight, u64 number of tensors, tensor* )
//             tensors in the order of the specification
//   tensor := name encoding u32(value type) u32(index type) u32(sparse_dim) u64(rank)
//             u64(dimension)* u64(nnz) indices values
//   name, encoding, indices, values := u64 length, bytes
//   encoding is followed by "/" and the values encoding where there is one
//
// Of a round in memory it is QuickDigest (service/store/checksums/array_sum.h) in place of SHA-256,
// of sums in place of arrays:  indices, values := u64 length, u64 XXH3 (0 where the length is)
std::string UpdateDigest(float weight, std::span<const EncodedTensor> tensors,
                         std::span<const size_t> order);
std::string QuickUpdateDigest(float weight, std::span<const EncodedTensor> tensors,
                              std::span<const TensorSums> sums, std::span<const size_t> order);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_UPDATE_H_
