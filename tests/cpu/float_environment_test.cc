// The floating-point settings of the thread that calls change no bit of a result, whatever they
// were when the back end was made and when oneTBB was first used.
#include "base/float_environment.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpu/parallel.h"
#include "sparse/backend.h"
#include "sparse/reference_backend.h"
#include "sparse/values.h"
#include "tests/support/other_float_environment.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

bool IsUsual() { return !FlushesToZero() && RoundsToNearest(); }

TEST(DefaultFloatEnvironmentTest, EndsWithTheSettingsOfBefore) {
  for (const FloatSettings settings : kOtherFloatSettings) {
    const OtherFloatEnvironment other(settings);
    const int rounding = std::fegetround();
    {
      const DefaultFloatEnvironment usual;
      EXPECT_TRUE(IsUsual());
    }
    EXPECT_FALSE(IsUsual());
    EXPECT_EQ(std::fegetround(), rounding);
  }
  EXPECT_TRUE(IsUsual());
}

// Threads that are made under DefaultFloatEnvironment have none of their own.
TEST(DefaultFloatEnvironmentTest, IsThatOfTheThreadsMadeUnderIt) {
  for (const FloatSettings settings : kOtherFloatSettings) {
    const OtherFloatEnvironment other(settings);
    const DefaultFloatEnvironment usual;
    std::thread([] { EXPECT_TRUE(IsUsual()); }).join();
    EXPECT_TRUE(std::async(std::launch::async, [] { return IsUsual(); }).get());
  }
}

TEST(ParallelTest, BodiesHaveTheDefaultSettings) {
  for (const FloatSettings settings : kOtherFloatSettings) {
    const OtherFloatEnvironment other(settings);
    Parallel parallel(4);
    for (const size_t n : {size_t{1}, size_t{1000}}) {
      std::atomic<size_t> usual = 0;
      parallel.For(n, [&](size_t) { usual += IsUsual() ? 1 : 0; });
      EXPECT_EQ(usual, n);
    }
    EXPECT_FALSE(IsUsual()) << "this thread's own";
  }
}

constexpr uint64_t kRows = 60'000;  // of several tasks

// One update for each value; all rows of all updates get it.
template <class V>
std::vector<Update> OneValueEach(const std::vector<double>& values) {
  std::vector<Update> updates;
  for (const double value : values) {
    Update& update = updates.emplace_back();
    const V narrow = ValueTraits<V>::Narrow(value);
    update.values.resize(kRows * sizeof(V));
    for (uint64_t row = 0; row < kRows; ++row) {
      update.rows.push_back(row);
      std::memcpy(update.values.data() + row * sizeof(V), &narrow, sizeof(V));
    }
  }
  return updates;
}

struct Sum {
  ReduceSpec spec;
  std::vector<Update> updates;
  std::vector<std::byte> value;  // of each row of the result
};

template <class V>
Sum MakeSum(const std::vector<double>& values, double expected) {
  Sum sum{MakeSpec("sum", ValueTraits<V>::kType, kRows, 1), OneValueEach<V>(values), {}};
  const V narrow = ValueTraits<V>::Narrow(expected);
  sum.value.resize(sizeof(V));
  std::memcpy(sum.value.data(), &narrow, sizeof(V));
  return sum;
}

// Sums that lose a subnormal number, or round otherwise, when it is taken for 0.
std::vector<Sum> Sums() {
  std::vector<Sum> sums;
  sums.push_back(MakeSum<float>({1e38, 0x1p-149, -1e38}, 0x1p-149));
  sums.push_back(MakeSum<BF16>({0x1p100, 0x1p-133, -0x1p100}, 0x1p-133));
  sums.push_back(MakeSum<F16>({32768, 0x1p-24, -32768}, 0x1p-24));
  sums.push_back(MakeSum<double>({1.0, 0x1p-53, 0x1p-1074}, 1.0 + 0x1p-52));
  sums.push_back(MakeSum<double>({0x1p-1074, 0x1p-1074}, 0x1p-1073));
  return sums;
}

// Returns how many rows of the result have the value.
uint64_t RowsWith(const absl::StatusOr<Aggregate>& result, const std::vector<std::byte>& value) {
  if (!result.ok()) return 0;
  const auto& values = result->tensor.values;
  uint64_t rows = 0;
  for (size_t at = 0; at < values.size(); at += value.size()) {
    rows += std::memcmp(values.data() + at, value.data(), value.size()) == 0 ? 1 : 0;
  }
  return rows;
}

// Makes each back end of this build that runs here under the settings, as well as its first
// reduction, so that oneTBB takes them over.
std::vector<std::unique_ptr<Backend>> BackendsMadeUnder(FloatSettings settings) {
  const Sum sum = MakeSum<float>({1.0, 2.0}, 3.0);
  std::vector<std::unique_ptr<Backend>> backends;
  const OtherFloatEnvironment other(settings);
  for (const BackendFactory& factory : AllBackends()) {
    auto backend = factory.make({.threads = 4, .memory_bytes = uint64_t{1} << 30});
    if (!backend.ok()) continue;
    for (const std::string& plan : PlansFor(**backend, sum.spec)) {
      EXPECT_TRUE(Reduce(**backend, sum.spec, sum.updates, plan).ok());
    }
    backends.push_back(*std::move(backend));
  }
  return backends;
}

class SettingsTest : public ::testing::TestWithParam<FloatSettings> {};

TEST_P(SettingsTest, OfTheCallerChangeNoSum) {
  const std::vector<Sum> sums = Sums();
  for (const auto& backend : BackendsMadeUnder(GetParam())) {
    for (const Sum& sum : sums) {
      for (const std::string& plan : PlansFor(*backend, sum.spec)) {
        const auto result = [&] {
          const OtherFloatEnvironment other(GetParam());
          const DefaultFloatEnvironment usual;  // as main() and the Python package's library have
          return Reduce(*backend, sum.spec, sum.updates, plan);
        }();
        EXPECT_EQ(RowsWith(result, sum.value), kRows) << backend->info().name << "/" << plan << " "
                                                      << ValueTypeName(sum.spec.layout.value_type);
      }
    }
  }
}

TEST_P(SettingsTest, OfTheCallerGiveTheBytesOfTheReference) {
  const auto backends = BackendsMadeUnder(GetParam());
  const auto reference = *MakeReferenceBackend({});
  for (const char* op : {"sum", "weighted_mean"}) {
    for (const ValueType type : {ValueType::kF16, ValueType::kF32, ValueType::kF64}) {
      for (const Values values : {Values::kSubnormal, Values::kFarApart}) {
        const ReduceSpec spec = MakeSpec(op, type, kRows, 1);
        const auto updates = MakeUpdates(spec, {.nnz = 5000, .values = values}, 1);
        const auto expected = Reduce(*reference, spec, updates);
        for (const auto& backend : backends) {
          for (const std::string& plan : PlansFor(*backend, spec)) {
            const OtherFloatEnvironment other(GetParam());
            const DefaultFloatEnvironment usual;
            EXPECT_EQ(Difference(expected, Reduce(*backend, spec, updates, plan)), "")
                << backend->info().name << "/" << plan << " " << op << " " << ValueTypeName(type);
          }
        }
      }
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<FloatSettings>& info) {
  switch (info.param) {
    case FloatSettings::kFlushToZero:
      return "FlushToZero";
    case FloatSettings::kUpward:
      return "Upward";
    case FloatSettings::kTowardZero:
      return "TowardZero";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(All, SettingsTest, ::testing::ValuesIn(kOtherFloatSettings), &NameOf);

}  // namespace
}  // namespace sparseagg::testing
