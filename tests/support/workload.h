// Seeded updates for tests: every distribution of indices and every kind of values that has broken
// an aggregation somewhere. The same seed gives the same updates.
#ifndef SPARSEAGG_TESTS_SUPPORT_WORKLOAD_H_
#define SPARSEAGG_TESTS_SUPPORT_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/backend.h"
#include "sparse/types.h"

namespace sparseagg::testing {

enum class Distribution {
  kDistinct,   // no row twice in an update, any order
  kAllEqual,   // one row, again and again
  kZipf,       // few hot rows, many rare ones
  kSorted,     // canonical
  kReversed,   // strictly descending
  kOneHotRow,  // half of all entries in one row
  kDisjoint,   // no row in two updates
  kIdentical,  // all updates have the same rows
};
inline constexpr Distribution kAllDistributions[] = {
    Distribution::kDistinct, Distribution::kAllEqual, Distribution::kZipf,
    Distribution::kSorted,   Distribution::kReversed, Distribution::kOneHotRow,
    Distribution::kDisjoint, Distribution::kIdentical};

enum class Values {
  kNormal,         // like gradients
  kHostile,        // random finite bit patterns: every exponent beside every other
  kCancelling,     // large numbers that cancel and leave small ones
  kTies,           // sums halfway between two numbers of the format
  kSmall,          // small whole numbers: no rounding at all
  kSubnormal,      // nothing but subnormal numbers, and zeros of both signs
  kOverflowing,    // the largest numbers of the type: sums leave its range, and some come back
  kNegativeZeros,  // zeros of both signs, and a few numbers
  kFarApart,       // the largest and the smallest numbers of the type in the same sums
};
// As many as have no factor in common with the number of distributions: tests that walk through
// both lists at once meet every pair.
inline constexpr Values kAllValues[] = {
    Values::kNormal,      Values::kHostile,       Values::kCancelling,
    Values::kTies,        Values::kSmall,         Values::kSubnormal,
    Values::kOverflowing, Values::kNegativeZeros, Values::kFarApart};

struct Update {
  float weight = 1.0f;
  std::vector<uint64_t> rows;
  std::vector<std::byte> values;  // [rows, row_width]
};

struct Shape {
  uint64_t nnz = 0;  // entries of each update
  uint32_t contributors = 3;
  Distribution distribution = Distribution::kDistinct;
  Values values = Values::kNormal;
};

// What a back end answered where a test needed something else. GoogleTest reports it as the failure
// of that test, and goes on with the next one.
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(absl::Status status)
      : std::runtime_error(status.ToString()), status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// Updates for `spec`, with weights of which some are zero and none is refused for the value type.
std::vector<Update> MakeUpdates(const ReduceSpec& spec, const Shape& shape, uint64_t seed);

// [count] values of the type of `spec`, as bytes.
std::vector<std::byte> MakeValues(const ReduceSpec& spec, uint64_t count, Values kind,
                                  std::mt19937_64& random);

// A weight that suits such values: f64 products stay finite, integers have whole weights.
float MakeWeight(const ReduceSpec& spec, Values kind, std::mt19937_64& random);

// A spec of `num_rows` rows; checked integers.
ReduceSpec MakeSpec(const std::string& op, ValueType type, uint64_t num_rows, uint32_t row_width);

// A staged copy of `update`. Throws StatusError, as do the next three.
StagedUpdate StageCopy(const Aggregator& aggregator, const Update& update);

// The same, sent as coo.packed; as above where it cannot be, or the aggregator wants to have rows.
StagedUpdate StagePackedCopy(const Aggregator& aggregator, const Update& update);

// The same with narrow rows, if the aggregator takes them and they are in order.
StagedUpdate StageNarrowCopy(const Aggregator& aggregator, const Update& update);

// An aggregator of the plan `plan` (empty: the planner's choice).
std::unique_ptr<Aggregator> NewAggregator(Backend& backend, const ReduceSpec& spec,
                                          const std::string& plan = "");

// The plans of the back end that can take `spec` at all: a dense one needs the memory.
std::vector<std::string> PlansFor(const Backend& backend, const ReduceSpec& spec);

// Accumulates everything, staged by `stage`, and reports; the first error ends it. Updates that
// ValidateUpdate() refuses are left out.
absl::StatusOr<Aggregate> Reduce(Backend& backend, const ReduceSpec& spec,
                                 const std::vector<Update>& updates, const std::string& plan = "",
                                 StagedUpdate (*stage)(const Aggregator&,
                                                       const Update&) = &StageCopy);

// One line that is equal exactly when two results are: the status or the tensor.
std::string Describe(const absl::StatusOr<Aggregate>& result);

// Adds to the caller's failure the first place where two results differ; "" when they are the same
// bytes.
std::string Difference(const absl::StatusOr<Aggregate>& expected,
                       const absl::StatusOr<Aggregate>& actual);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_WORKLOAD_H_
