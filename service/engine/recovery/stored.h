// The engine's data in the store, as JSON: a round's specification, its state, and the headers of
// an update. A missing field has its default and an unknown one is ignored, so that a server can
// read what an earlier version wrote.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_STORED_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_STORED_H_

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/recovery/round_anchor.h"
#include "service/engine/types.h"

namespace sparseagg {

// All readers return DATA_LOSS (STORE_CORRUPT) for a text that no writer produces.

struct RoundDescription {
  CreateRoundArgs args;  // normalised
  std::chrono::system_clock::time_point create_time;
};
std::string WriteDescription(const RoundDescription& description);
absl::StatusOr<RoundDescription> ReadDescription(std::string_view text);

// Write and read the times, counts, manifest and failure of a round. ReadDetails() leaves the other
// fields of `snapshot` unchanged.
std::string WriteDetails(const RoundSnapshot& snapshot);
absl::Status ReadDetails(std::string_view text, RoundSnapshot& snapshot);

// Write and read the clock of an open round, which is stored in place of the details of a closed
// one.
std::string WriteAnchor(const RoundAnchor& anchor);
absl::StatusOr<RoundAnchor> ReadAnchor(std::string_view text);

// Describes an upload by what is known before its bytes arrive, so that it is recognised when it is
// resumed.
std::string WriteUpload(float weight, std::span<const EncodedHeader> headers);

std::string WriteHeaders(std::span<const EncodedHeader> headers);
absl::StatusOr<std::vector<EncodedHeader>> ReadHeaders(std::string_view text);

// A result as one byte string: for each tensor nnz (u64), the indices, the values, little-endian. A
// tensor with every row, whose row ids are not stored as an array, has nnz + 2^63 in place of nnz,
// and no indices. The pieces point into `tensors` and `sizes`.
std::vector<std::string_view> ResultPieces(std::span<const SparseTensor> tensors,
                                           std::vector<uint64_t>& sizes);
// The same of a published result, which may be a partial aggregate.
std::vector<std::string_view> ResultPieces(const PublishedResult& result,
                                           std::vector<uint64_t>& sizes);
absl::StatusOr<std::vector<SparseTensor>> ReadResult(std::string_view bytes, const RoundSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_STORED_H_
