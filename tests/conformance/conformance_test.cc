// Every back end and plan gives the same bytes as the reference back end, for operators x value
// types x row widths x sizes x distributions of rows x kinds of values.
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr uint64_t kSizes[] = {0, 1, 31, 32, 33, 255, 256, 257};
constexpr uint32_t kRowWidths[] = {1, 3, 64};

// The back ends of this build that run on this machine, other than the reference.
std::vector<std::unique_ptr<Backend>> BackendsUnderTest() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const BackendFactory& factory : AllBackends()) {
    if (factory.name == "reference") continue;
    auto backend = factory.make({.threads = 4});
    if (backend.ok()) backends.push_back(*std::move(backend));
  }
  return backends;
}

void ExpectSameBytes(Backend& reference, Backend& backend, const ReduceSpec& spec,
                     const Shape& shape, uint64_t seed) {
  const std::vector<Update> updates = MakeUpdates(spec, shape, seed);
  const auto expected = Reduce(reference, spec, updates);
  for (const std::string& plan : backend.info().plans) {
    const auto actual = Reduce(backend, spec, updates, plan);
    EXPECT_EQ(Difference(expected, actual), "")
        << backend.info().name << "/" << plan << " " << spec.op << " "
        << ValueTypeName(spec.layout.value_type) << " rows " << spec.layout.num_rows << " width "
        << spec.layout.row_width << " nnz " << shape.nnz << " distribution "
        << static_cast<int>(shape.distribution) << " values " << static_cast<int>(shape.values)
        << " seed " << seed;
  }
}

class ConformanceTest : public ::testing::TestWithParam<std::tuple<std::string_view, ValueType>> {
 protected:
  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  std::vector<std::unique_ptr<Backend>> backends_ = BackendsUnderTest();
};

TEST_P(ConformanceTest, EveryPlanGivesTheBytesOfTheReference) {
  const auto [op, type] = GetParam();
  ASSERT_FALSE(backends_.empty());
  uint64_t seed = 1;
  for (const auto& backend : backends_) {
    for (uint32_t width : kRowWidths) {
      for (uint64_t nnz : kSizes) {
        for (Distribution distribution : kAllDistributions) {
          // Over all seeds, each kind of values is combined with each size, width and distribution.
          const Values values = kAllValues[seed % std::size(kAllValues)];
          const ReduceSpec spec =
              MakeSpec(std::string(op), type, seed % 2 == 0 ? 1000 : 300, width);
          ExpectSameBytes(*reference_, *backend, spec, {nnz, 3, distribution, values}, seed);
          ++seed;
        }
      }
    }
  }
}

TEST_P(ConformanceTest, ModularIntegersWrapLikeTheReference) {
  const auto [op, type] = GetParam();
  ReduceSpec spec = MakeSpec(std::string(op), type, 100, 3);
  spec.integer_overflow = IntegerOverflow::kModular;
  for (const auto& backend : backends_) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      ExpectSameBytes(*reference_, *backend, spec, {257, 5, Distribution::kZipf, Values::kHostile},
                      seed);
    }
  }
}

// A weight that is not negative may still have a sign.
TEST_P(ConformanceTest, AWeightOfNegativeZeroIsZero) {
  const auto [op, type] = GetParam();
  const ReduceSpec spec = MakeSpec(std::string(op), type, 300, 2);
  for (const auto& backend : backends_) {
    std::vector<Update> updates =
        MakeUpdates(spec, {257, 3, Distribution::kZipf, Values::kSmall}, 1);
    for (Update& update : updates) update.weight = 0.0f;
    const auto expected = Reduce(*reference_, spec, updates);
    updates[1].weight = -0.0f;
    for (const std::string& plan : PlansFor(*backend, spec)) {
      EXPECT_EQ(Difference(expected, Reduce(*backend, spec, updates, plan)), "") << plan;
    }
  }
}

TEST_P(ConformanceTest, DenseTensorsAreOneRow) {
  const auto [op, type] = GetParam();
  for (const auto& backend : backends_) {
    for (uint32_t width : {1u, 5u, 257u}) {
      for (uint64_t nnz : {0, 1}) {
        const ReduceSpec spec = MakeSpec(std::string(op), type, 1, width);
        ExpectSameBytes(*reference_, *backend, spec,
                        {nnz, 4, Distribution::kSorted, Values::kHostile}, width);
      }
    }
  }
}

std::string ParamName(const ::testing::TestParamInfo<ConformanceTest::ParamType>& info) {
  return absl::StrCat(std::string(std::get<0>(info.param)), "_",
                      std::string(ValueTypeName(std::get<1>(info.param))));
}

INSTANTIATE_TEST_SUITE_P(OperatorsAndTypes, ConformanceTest,
                         ::testing::Combine(::testing::ValuesIn(AllOps::kNames),
                                            ::testing::ValuesIn(kAllValueTypes)),
                         ParamName);

// These are large enough for many pieces, ranges and tasks.
class LargeConformanceTest
    : public ::testing::TestWithParam<std::tuple<std::string_view, Distribution>> {};

TEST_P(LargeConformanceTest, MoreThanAMillionEntries) {
  const auto [op, distribution] = GetParam();
  const auto reference = *MakeReferenceBackend({});
  const ReduceSpec spec = MakeSpec(std::string(op), ValueType::kF32, 1 << 17, 1);
  for (const auto& backend : BackendsUnderTest()) {
    ExpectSameBytes(*reference, *backend, spec,
                    {(uint64_t{1} << 19) + 1, 2, distribution, Values::kNormal}, 11);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeConformanceTest,
                         ::testing::Combine(::testing::Values("sum", "mean_of_contributors", "max"),
                                            ::testing::Values(Distribution::kZipf,
                                                              Distribution::kAllEqual,
                                                              Distribution::kSorted)));

TEST(ConformanceIndexSpace, RowsUpToTheLimitOfTheIndexSpace) {
  const auto reference = *MakeReferenceBackend({});
  // These include spaces with 2^64 coordinates, a product that is zero in 64 bits.
  const std::pair<uint64_t, uint32_t> spaces[] = {
      {kNumRowsMax - 1, 1}, {kNumRowsMax - 1, 3}, {uint64_t{1} << 62, 4}, {uint64_t{1} << 58, 64}};
  for (const auto& [num_rows, width] : spaces) {
    const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, num_rows, width);
    for (uint64_t nnz : {10, 2000, 10000}) {
      if (nnz * width > 50000) continue;  // the reference takes long
      const std::vector<Update> updates =
          MakeUpdates(spec, {nnz, 5, Distribution::kDistinct, Values::kNormal}, 3);
      const auto expected = Reduce(*reference, spec, updates);
      for (const auto& backend : BackendsUnderTest()) {
        const std::vector<std::string> plans = PlansFor(*backend, spec);
        for (const std::string& plan : plans) {
          EXPECT_EQ(Difference(expected, Reduce(*backend, spec, updates, plan)), "")
              << plan << " " << num_rows << " rows of " << width << ", nnz " << nnz;
        }
        if (plans.empty()) continue;  // it has only dense plans, too large here
        EXPECT_EQ(Difference(expected, Reduce(*backend, spec, updates)), "")
            << "the planner's choice";
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg::testing
