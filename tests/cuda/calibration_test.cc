// The rates that the planner gets, on the fake GPU with a fake clock.
#include "cuda/device/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include "base/status.h"
#include "cuda/cuda_backend.h"
#include "cuda/raii/memory_pool.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg::gpu {
namespace {

using std::chrono::nanoseconds;
using ::testing::HasSubstr;

const GpuInfo kH200{.compute_major = 9, .multiprocessors = 132, .cache_bytes = 60'000'000};
// This device is as small as the fake GPU.
const GpuInfo kSmall{.compute_major = 9, .multiprocessors = 2, .cache_bytes = 1 << 20};
constexpr int kLooksOfLoad = 6;  // begin and end of three runs

// A clock whose n-th look is step(n) after the one before.
Clock Steps(const std::function<nanoseconds(int)>& step) {
  return [step, n = 0, now = std::chrono::steady_clock::time_point()]() mutable {
    return now += step(n++);
  };
}
Clock Milliseconds() {
  return Steps([](int) { return std::chrono::milliseconds(1); });
}

class CalibrationTest : public ::testing::Test {
 protected:
  void SetUp() override { sparseagg::testing::ResetFakeGpu(); }

  MemoryPool pool_{0, uint64_t{1} << 30};
  Queue queue_{pool_};
};

TEST_F(CalibrationTest, TheUsualRatesOfAnH200AreTheDefaults) {
  const DeviceRates usual = UsualRates(kH200);
  const DeviceRates defaults;
  EXPECT_DOUBLE_EQ(usual.copy_bytes, defaults.copy_bytes);
  EXPECT_DOUBLE_EQ(usual.sort_words, defaults.sort_words);
  EXPECT_DOUBLE_EQ(usual.memory_adds, defaults.memory_adds);
  EXPECT_DOUBLE_EQ(usual.cache_bytes, defaults.cache_bytes);
}

TEST_F(CalibrationTest, APartOfADeviceHasThatPartOfItsRates) {
  GpuInfo half = kH200;
  half.multiprocessors /= 2;
  EXPECT_DOUBLE_EQ(UsualRates(half).copy_bytes, UsualRates(kH200).copy_bytes / 2);
  EXPECT_DOUBLE_EQ(UsualRates(half).shared_adds, UsualRates(kH200).shared_adds / 2);
  EXPECT_DOUBLE_EQ(UsualRates(half).bus_bytes, UsualRates(kH200).bus_bytes);
}

TEST_F(CalibrationTest, AGenerationThatIsNotKnownIsTakenForTheOneBeforeIt) {
  const GpuInfo newer{.compute_major = 12, .compute_minor = 1};
  const GpuInfo b200{.compute_major = 10};
  EXPECT_DOUBLE_EQ(UsualRates(newer).copy_bytes, UsualRates(b200).copy_bytes);
  EXPECT_GT(UsualRates(b200).copy_bytes, UsualRates(kH200).copy_bytes);
  EXPECT_LT(UsualRates({.compute_major = 8}).sort_words, UsualRates(kH200).sort_words);
}

TEST_F(CalibrationTest, RatesAreWhatWasDoneByTheTimeThatItTook) {
  const auto rates = MeasureRates(queue_, kSmall, Milliseconds());
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_DOUBLE_EQ(rates->copy_bytes, 2 * (8 << 20) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->bus_bytes, (1 << 20) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->bus_back_bytes, (1 << 20) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->sort_words, 3 * (1 << 18) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->sort_pairs, 3 * (1 << 18) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->pass_seconds, 1e-3 / 3);
  EXPECT_DOUBLE_EQ(rates->cached_adds, (1 << 19) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->memory_adds, (1 << 19) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->shared_adds, (1 << 21) / 1e-3);
  EXPECT_DOUBLE_EQ(rates->launch_seconds, 1e-3 / 64);
  EXPECT_DOUBLE_EQ(rates->cache_bytes, UsualRates(kSmall).cache_bytes);
}

TEST_F(CalibrationTest, TheShortestRunCounts) {
  // The second of a load's three runs is not disturbed.
  const auto rates = MeasureRates(queue_, kSmall, Steps([](int look) {
                                    const bool second_ends = look % kLooksOfLoad == 3;
                                    return std::chrono::microseconds(second_ends ? 500 : 2000);
                                  }));
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_DOUBLE_EQ(rates->copy_bytes, 2 * (8 << 20) / 500e-6);
  EXPECT_DOUBLE_EQ(rates->launch_seconds, 500e-6 / 64);
}

TEST_F(CalibrationTest, RatesThatMakeNoSenseAreRefused) {
  for (const auto step : {nanoseconds(0), nanoseconds(-1'000'000), nanoseconds(1),
                          nanoseconds(std::chrono::hours(1))}) {
    const auto rates = MeasureRates(queue_, kSmall, Steps([&](int) { return step; }));
    ASSERT_FALSE(rates.ok()) << step.count();
    EXPECT_THAT(std::string(rates.status().message()), HasSubstr("for a copy on the device"));
  }
}

TEST_F(CalibrationTest, OneThatMakesNoSenseIsNamedAndEndsTheMeasurement) {
  const char* const loads[] = {"a copy on the device",    "a copy to the device",
                               "a copy to the host",      "a sort of words",
                               "a sort of pairs",         "a short sort's pass",
                               "an add in the cache",     "an add beyond the cache",
                               "an add in shared memory", "a launch"};
  int number = 0;
  for (const char* load : loads) {
    int looks = 0;
    const auto rates = MeasureRates(queue_, kSmall, Steps([&](int look) {
                                      looks = look + 1;
                                      return look / kLooksOfLoad == number ? nanoseconds(0)
                                                                           : nanoseconds(1'000'000);
                                    }));
    EXPECT_THAT(std::string(rates.status().message()), HasSubstr(load));
    ++number;
    EXPECT_EQ(looks, number * kLooksOfLoad);
  }
}

BackendInfo InfoOfBackendWith(const Clock& clock, uint64_t memory_bytes = 0) {
  Tuning tuning;
  tuning.clock = clock;
  return (*MakeCudaBackend({.memory_bytes = memory_bytes}, tuning))->info();
}
double SecondsOf(const BackendInfo& info) {
  const ReduceSpec spec = sparseagg::testing::MakeSpec("sum", ValueType::kF32, 1'000'000, 1);
  return info.cost(info, "radix_segments", spec, {}).seconds;
}
double SecondsWith(const DeviceRates& rates) {
  const ReduceSpec spec = sparseagg::testing::MakeSpec("sum", ValueType::kF32, 1'000'000, 1);
  return CudaCost(rates, "radix_segments", spec, {}).seconds;
}

TEST_F(CalibrationTest, TheBackEndPlansWithWhatWasMeasured) {
  const BackendInfo info = InfoOfBackendWith(Milliseconds());
  ASSERT_EQ(info.notes.size(), 1u);
  EXPECT_THAT(info.notes[0], HasSubstr("rates measured: bytes a second: copy 1.67772e+10"));
  EXPECT_DOUBLE_EQ(SecondsOf(info), SecondsWith(*MeasureRates(queue_, kSmall, Milliseconds())));
}

TEST_F(CalibrationTest, TheBackEndPlansWithUsualRatesWhereTheMeasurementFailsAndSaysSo) {
  const BackendInfo nonsense = InfoOfBackendWith(Steps([](int) { return nanoseconds(0); }));
  ASSERT_EQ(nonsense.notes.size(), 1u);
  EXPECT_THAT(nonsense.notes[0], HasSubstr("measuring them failed (measured inf"));
  EXPECT_DOUBLE_EQ(SecondsOf(nonsense), SecondsWith(UsualRates(kSmall)));

  const BackendInfo no_memory = InfoOfBackendWith(Milliseconds(), 1 << 20);
  ASSERT_EQ(no_memory.notes.size(), 1u);
  EXPECT_THAT(no_memory.notes[0], HasSubstr("no memory left"));
  EXPECT_DOUBLE_EQ(SecondsOf(no_memory), SecondsWith(UsualRates(kSmall)));
}

TEST_F(CalibrationTest, ADeviceThatFailsMeanwhileIsNotUsed) {
  sparseagg::testing::TheFakeGpu().fails_at_call = 40;
  EXPECT_EQ(ErrorReason(MakeCudaBackend({}).status()), "GPU_LOST");
  sparseagg::testing::ResetFakeGpu();
}

TEST_F(CalibrationTest, ADeviceThatNoKernelIsCompiledForIsNoGpu) {
  sparseagg::testing::TheFakeGpu().compute_major = 7;
  const auto backend = MakeCudaBackend({});
  EXPECT_EQ(ErrorReason(backend.status()), "NO_GPU");
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr("needs 8.0"));
  sparseagg::testing::ResetFakeGpu();
}

TEST_F(CalibrationTest, AnOldDeviceBesideTheFirstIsNoReasonNotToUseThat) {
  sparseagg::testing::TheFakeMachine().devices = 2;
  sparseagg::testing::TheFakeGpu(1).compute_major = 7;
  EXPECT_EQ(MakeCudaBackend({}, {.calibrate = false}).status(), absl::OkStatus());
  sparseagg::testing::ResetFakeGpu();
}

}  // namespace
}  // namespace sparseagg::gpu
