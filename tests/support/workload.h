// Seeded updates for tests, with distributions of indices and kinds of values that have broken
// aggregations before. The same seed gives the same updates.
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
  kAllEqual,   // one row, repeated
  kZipf,       // few hot rows, many rare ones
  kSorted,     // canonical
  kReversed,   // strictly descending
  kOneHotRow,  // half of all entries in one row
  kDisjoint,   // no two updates share a row
  kIdentical,  // all updates have the same rows
};
inline constexpr Distribution kAllDistributions[] = {
    Distribution::kDistinct, Distribution::kAllEqual, Distribution::kZipf,
    Distribution::kSorted,   Distribution::kReversed, Distribution::kOneHotRow,
    Distribution::kDisjoint, Distribution::kIdentical};

enum class Values {
  kNormal,         // like gradients
  kHostile,        // random finite bit patterns: all exponents mixed
  kCancelling,     // large numbers that cancel and leave small ones
  kTies,           // sums halfway between two numbers of the format
  kSmall,          // small whole numbers: no rounding at all
  kSubnormal,      // only subnormal numbers, and zeros of both signs
  kOverflowing,    // the largest numbers of the type: sums leave its range, and some return
  kNegativeZeros,  // zeros of both signs, and a few numbers
  kFarApart,       // the largest and the smallest numbers of the type in the same sums
};
// Their number has no common factor with the number of distributions, so that a test that steps
// through both lists together covers every pair.
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

// An error of a back end that a test did not expect. GoogleTest reports it as the failure of that
// test and continues with the next one.
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(absl::Status status)
      : std::runtime_error(status.ToString()), status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// Makes updates for `spec`. Some of their weights are zero; all are valid for the value type.
std::vector<Update> MakeUpdates(const ReduceSpec& spec, const Shape& shape, uint64_t seed);

// Makes [count] values of the type of `spec`, as bytes.
std::vector<std::byte> MakeValues(const ReduceSpec& spec, uint64_t count, Values kind,
                                  std::mt19937_64& random);

// Makes a weight for such values: f64 products stay finite, integers have whole weights.
float MakeWeight(const ReduceSpec& spec, Values kind, std::mt19937_64& random);

// Makes a spec of `num_rows` rows, with checked integers.
ReduceSpec MakeSpec(const std::string& op, ValueType type, uint64_t num_rows, uint32_t row_width);

// Stages a copy of `update`. Throws StatusError, as do the next three functions.
StagedUpdate StageCopy(const Aggregator& aggregator, const Update& update);

// The same with rows packed as in coo.packed, if the rows can be packed and the aggregator accepts
// that form; otherwise like StageCopy().
StagedUpdate StagePackedCopy(const Aggregator& aggregator, const Update& update);

// The same with narrow rows, if they are in order and the aggregator accepts that form.
StagedUpdate StageNarrowCopy(const Aggregator& aggregator, const Update& update);

// Makes an aggregator of the plan `plan` (empty: the planner's choice).
std::unique_ptr<Aggregator> NewAggregator(Backend& backend, const ReduceSpec& spec,
                                          const std::string& plan = "");

// Returns the plans of the back end that are possible for `spec`: a dense plan needs enough memory.
std::vector<std::string> PlansFor(const Backend& backend, const ReduceSpec& spec);

// Accumulates all updates, staged by `stage`, and returns the result, or the first error. Updates
// that ValidateUpdate() refuses are skipped.
absl::StatusOr<Aggregate> Reduce(Backend& backend, const ReduceSpec& spec,
                                 const std::vector<Update>& updates, const std::string& plan = "",
                                 StagedUpdate (*stage)(const Aggregator&,
                                                       const Update&) = &StageCopy);

// Describes a result, the status or the tensor, in one line that is equal exactly when two results
// are.
std::string Describe(const absl::StatusOr<Aggregate>& result);

// Describes the first difference between two results, for a failure message; "" when they have the
// same bytes.
std::string Difference(const absl::StatusOr<Aggregate>& expected,
                       const absl::StatusOr<Aggregate>& actual);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_WORKLOAD_H_
