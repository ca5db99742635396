// The partial aggregate of a round as bytes: what a server has of a round, for a server above it,
// another process, or a file. docs/partials.md has the layout.
//
//   partial  := head, covered, slice*, digest              little-endian, without alignment
//   head     := "spagpart", u32 version, u32 tensors, u64 contributors, u8 named, weight, tensor*
//   weight   := u8 n, then n digits: u8 position, i32 digit    the exact total weight
//   tensor   := u16 length, name; u8 length, op; u8 value_type; u8 integer_overflow; u8 rank;
//               u8 sparse_dim; i64 dimension [rank]; u64 entries; u64 slices
//   covered  := update [contributors] if named is 1, strictly ascending by contributor
//   update   := u8 length, contributor; u8 length, update_id; f32 weight; 32 bytes of digest
//   slice    := sparse/partials/slices.h, those of the first tensor first
//   digest   := SHA-256(head, SHA-256(covered), SHA-256(slice)*)
//
// The bytes are a function of the updates alone. The digest hashes each slice by itself, so it can
// be computed from parts, however the rows were divided.
#ifndef SPARSEAGG_SERVICE_ENGINE_PARTIAL_ROUND_PARTIAL_H_
#define SPARSEAGG_SERVICE_ENGINE_PARTIAL_ROUND_PARTIAL_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/store.h"
#include "sparse/partial.h"
#include "sparse/types.h"

namespace sparseagg {

inline constexpr uint32_t kPartialVersion = 1;

// The name of the encoding by which the one "tensor" of an update is a partial aggregate.
inline constexpr std::string_view kPartialEncoding = "partial.v1";

// More contributors than a partial aggregate, or the sum of several, can cover: their numbers and
// weights stay within 62 bits.
inline constexpr uint64_t kPartialContributorsMax = uint64_t{1} << 38;

// The exact state of the tensors of a round, and the updates that are in it.
struct RoundPartial {
  std::vector<TensorSpec> specs;  // their plans say nothing
  std::vector<Partial> tensors;   // [specs]; each has contributors and total weight
  std::vector<uint64_t> entries;  // [specs]: entries folded in, duplicates counted
  // The updates that are in it, sorted by contributor. Known if `named`; their `round` and
  // `sequence` are not part of the bytes.
  bool named = false;
  std::vector<UpdateRecord> covered;
};

// What a reader checks and asks for.
struct PartialReading {
  // The specification that it must have (FAILED_PRECONDITION, SPEC_MISMATCH). Empty: any.
  std::span<const TensorSpec> specs{};
  // Called with the memory that the partial aggregate takes so far, before more is allocated. An
  // error ends the reading.
  std::function<absl::Status(uint64_t bytes)> reserve = [](uint64_t) { return absl::OkStatus(); };
  bool check_digest = true;  // false: for fuzzing, which would rarely get past it
};

// REQUIRES: `covered` is sorted and has distinct contributors, if named.
std::string WritePartial(const RoundPartial& partial);

// Errors: INVALID_ARGUMENT (INVALID_PARTIAL) names tensor, position and limit for bytes that
// WritePartial() does not write, UNSUPPORTED_PARTIAL_VERSION; the errors of `reading`.
absl::StatusOr<RoundPartial> ReadPartial(std::string_view bytes, const PartialReading& reading);

// Returns the digest of bytes that WritePartial() wrote.
std::string_view PartialDigest(std::string_view bytes);

// Returns SPEC_MISMATCH, naming the tensor and what differs, unless both describe the same
// reduction.
absl::Status CheckSameTensors(std::span<const TensorSpec> own, std::span<const TensorSpec> theirs);

// Returns the memory of the partial aggregate.
uint64_t MemoryBytes(const RoundPartial& partial);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_PARTIAL_ROUND_PARTIAL_H_
