// The partial aggregate that a server with several GPUs sends to the server above it: its bytes say
// nothing about the number of devices. The GPUs are fake.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.h"
#include "sparse/ops/all.h"
#include "sparse/partials/slices.h"
#include "sparse/validate.h"
#include "tests/cuda/devices/group.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

// The slices of the state of the updates that are valid.
std::string WrittenState(Backend& backend, const ReduceSpec& spec,
                         const std::vector<testing::Update>& updates) {
  const auto aggregator = testing::NewAggregator(backend, spec);
  absl::Status status;
  for (const testing::Update& update : updates) {
    StagedUpdate staged = testing::StageCopy(*aggregator, update);
    if (!ValidateUpdate(spec, staged.entries.view(), update.weight).ok()) continue;
    status.Update(aggregator->Accumulate(std::move(staged), update.weight));
  }
  const auto state = aggregator->Snapshot();
  status.Update(state.status());
  EXPECT_TRUE(status.ok()) << status;
  std::string bytes;
  if (!status.ok()) return bytes;
  size_t begin = 0;
  for (const size_t end : SliceEnds(*state)) {
    bytes += WriteSlice(*state, std::exchange(begin, end), end);
  }
  return bytes;
}

class PartialsTest : public ::testing::TestWithParam<std::tuple<std::string_view, ValueType>> {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  void TearDown() override {
    EXPECT_EQ(testing::Misuses(), "");
    testing::ResetFakeGpu();
  }
};

TEST_P(PartialsTest, AnyNumberOfDevicesWritesThePartialAggregateOfTheCpu) {
  const auto [op, type] = GetParam();
  ReduceSpec spec = testing::MakeSpec(std::string(op), type, 200'000, 2);  // several slices
  spec.integer_overflow = IntegerOverflow::kModular;  // hostile integers overflow
  for (const auto distribution : {testing::Distribution::kDistinct, testing::Distribution::kZipf}) {
    const auto updates = testing::MakeUpdates(spec,
                                              {.nnz = 200,
                                               .contributors = 24,
                                               .distribution = distribution,
                                               .values = testing::Values::kHostile},
                                              7);
    const std::string expected = WrittenState(**MakeCpuBackend({}), spec, updates);
    ASSERT_GT(expected.size(), 200u);
    EXPECT_TRUE(WrittenState(**MakeReferenceBackend({}), spec, updates) == expected);
    for (const int devices : {1, 2, 3, 8}) {
      testing::ResetFakeGpu();
      const auto backend =
          testing::MakeGpuGroup(devices, {.calibrate = false, .upload_bytes = 1, .batch_bytes = 1});
      EXPECT_TRUE(WrittenState(*backend, spec, updates) == expected) << devices << " devices";
      EXPECT_EQ(testing::DevicesWithEntries(), devices);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, PartialsTest,
                         ::testing::Combine(::testing::ValuesIn(AllOps::kNames),
                                            ::testing::ValuesIn(kAllValueTypes)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(ValueTypeName(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace sparseagg
