// Rounds aimed at borders: where a block, a tile, a visit, a slice, a segment or a window ends and
// the next one begins, and where a state, a plan or the form of rows changes. Between two borders
// rows are full, or bits, or differences; on a border stands a row twice. The same seed gives the
// same round.
#ifndef SPARSEAGG_TESTS_BORDERS_ROUNDS_H_
#define SPARSEAGG_TESTS_BORDERS_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/backend.h"
#include "sparse/encoding.h"
#include "sparse/types.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {

using Random = std::mt19937_64;

inline uint64_t Below(Random& random, uint64_t limit) { return random() % limit; }
// True once in `times` times.
inline bool OneIn(Random& random, uint64_t times) { return random() % times == 0; }

struct BorderRound {
  uint64_t seed = 0;
  TensorSpec tensor;
  ReduceSpec spec;  // of `tensor`
  std::vector<Update> updates;
  // Sums of small whole numbers: known without a back end.
  bool whole_numbers = false;
};

// How large the rounds are: kService for those that travel.
enum class Scale { kCore, kService };

BorderRound MakeBorderRound(uint64_t seed, Scale scale);

// check(seed) for each round: of SPARSEAGG_BORDER_SEED alone, where that is set, and otherwise of
// 0, 1, ... until they had `wanted` updates together or three were wrong. `check` returns whether
// the round was right and adds its updates to `updates`.
void ForEachSeed(uint64_t wanted, const uint64_t& updates,
                 const std::function<bool(uint64_t seed)>& check);

// What a failure is described with: the seed, and what the round is about.
std::string Describe(const BorderRound& round);

// The exact result: by whole numbers, where the round has no others, and otherwise of the reference
// back end.
absl::StatusOr<Aggregate> ExactResult(const BorderRound& round);

// The entries of an update as they travel.
struct EncodedEntries {
  EncodedHeader header;
  std::string indices;
  std::string values;
};

enum class Wire {
  kRaw,          // coo.raw, indices of 64 bits
  kRawShort,     // of 32 bits, where the rows allow it
  kPackedForms,  // coo.packed, each block in any form that can hold it
  kAuto,         // what a client chooses
};
inline constexpr Wire kAllWires[] = {Wire::kRaw, Wire::kRawShort, Wire::kPackedForms, Wire::kAuto};

EncodedEntries Encode(const BorderRound& round, const Update& update, Wire wire, Random& random);

// `bytes` in pieces of random lengths: of a few bytes, of many, or all of them.
std::vector<std::string_view> RandomPieces(std::string_view bytes, Random& random);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_BORDERS_ROUNDS_H_
