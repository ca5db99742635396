// What the engine keeps in the store, as JSON: what a round is, what became of it, and how to read
// the payload of an update. A field that is missing has its default, an unknown one is ignored, so
// that a server can read what an earlier one wrote.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_STORED_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_STORED_H_

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/engine.h"
#include "service/engine/recovery/round_anchor.h"

namespace sparseagg {

// All readers: DATA_LOSS (STORE_CORRUPT) for what the writer did not write.

struct RoundDescription {
  CreateRoundArgs args;  // normalised
  std::chrono::system_clock::time_point create_time;
};
std::string WriteDescription(const RoundDescription& description);
absl::StatusOr<RoundDescription> ReadDescription(std::string_view text);

// Times, counts, manifest and failure of the books; the rest of `books` stays as it is.
std::string WriteDetails(const RoundSnapshot& books);
absl::Status ReadDetails(std::string_view text, RoundSnapshot& books);

// What an open round keeps of its clock, in the place of the details that it has once it is closed.
std::string WriteAnchor(const RoundAnchor& anchor);
absl::StatusOr<RoundAnchor> ReadAnchor(std::string_view text);

// All that is known of an update in chunks before its bytes: to recognise it when it is resumed.
std::string WriteUpload(float weight, std::span<const EncodedHeader> headers);

std::string WriteHeaders(std::span<const EncodedHeader> headers);
absl::StatusOr<std::vector<EncodedHeader>> ReadHeaders(std::string_view text);

// A result as one byte string: for each tensor nnz (u64), the indices, the values, little-endian.
// Where it has every row there is and no array says so, nnz + 2^63 stands there, and no indices do.
// The pieces point into `tensors` and `sizes`.
std::vector<std::string_view> ResultPieces(std::span<const SparseTensor> tensors,
                                           std::vector<uint64_t>& sizes);
absl::StatusOr<std::vector<SparseTensor>> ReadResult(std::string_view bytes, const RoundSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_STORED_H_
