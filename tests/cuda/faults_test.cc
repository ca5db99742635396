// What the back end does when its device fails or has no memory left, on the fake GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cuda/cuda_backend.h"
#include "sparse/failover_backend.h"
#include "sparse/reference_backend.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using testing::MakeSpec;
using testing::TheFakeGpu;
using testing::TheFakeMachine;

// Updates of one row each and of many, small batches: every kind of call is made many times.
const gpu::Tuning kSmallBatches{.calibrate = false, .upload_bytes = 4096, .batch_bytes = 16384};

const gpu::Tuning kUsualBatches{.calibrate = false};

class FaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  void TearDown() override { testing::ResetFakeGpu(); }

  absl::StatusOr<Aggregate> Expected(const ReduceSpec& spec) {
    return testing::Reduce(*reference_, spec, Updates(spec));
  }
  static std::vector<testing::Update> Updates(const ReduceSpec& spec) {
    return testing::MakeUpdates(spec,
                                {.nnz = 400,
                                 .contributors = 12,
                                 .distribution = testing::Distribution::kZipf,
                                 .values = testing::Values::kHostile},
                                5);
  }

  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  const ReduceSpec spec_ = MakeSpec("mean_of_contributors", ValueType::kF32, 1000, 3);
};

std::unique_ptr<Backend> CudaOverReference(int& losses) {
  return MakeFailoverBackend(*MakeCudaBackend({}, kSmallBatches), *MakeReferenceBackend({}),
                             {.on_loss = [&](const absl::Status&) { ++losses; }});
}

TEST_F(FaultsTest, ALossAtAnyCallChangesNoBit) {
  const auto expected = Expected(spec_);
  int losses = 0;
  uint64_t calls = 0;
  {
    const auto backend = CudaOverReference(losses);
    testing::ResetFakeGpu();
    EXPECT_EQ(Difference(expected, testing::Reduce(*backend, spec_, Updates(spec_))), "");
    calls = TheFakeGpu().calls;
  }
  EXPECT_EQ(losses, 0);
  ASSERT_GT(calls, 150u);
  for (uint64_t call = 1; call <= calls; call += 3) {
    losses = 0;
    testing::ResetFakeGpu();
    const auto backend = CudaOverReference(losses);
    testing::ResetFakeGpu();
    TheFakeGpu().fails_at_call = call;
    ASSERT_EQ(Difference(expected, testing::Reduce(*backend, spec_, Updates(spec_))), "")
        << "call " << call << " of " << calls;
    // The last calls only free what nobody needs any more.
    const bool lost = ErrorReason(backend->health()) == "GPU_LOST";
    EXPECT_EQ(losses, lost ? 1 : 0) << call;
    EXPECT_TRUE(lost || call > calls / 2) << call << " of " << calls;
  }
}

TEST_F(FaultsTest, ALossInTheMiddleIsKnownByHealthAndReasonAndLaterRoundsGoOn) {
  int losses = 0;
  const auto backend = CudaOverReference(losses);
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  const auto updates = Updates(spec_);
  for (size_t u = 0; u < updates.size(); ++u) {
    if (u == updates.size() / 2) TheFakeGpu().fails_at_call = TheFakeGpu().calls + 1;
    ASSERT_TRUE(
        aggregator->Accumulate(testing::StageCopy(*aggregator, updates[u]), updates[u].weight)
            .ok());
  }
  EXPECT_EQ(Difference(Expected(spec_), std::move(*aggregator).Report()), "");
  EXPECT_EQ(losses, 1);
  EXPECT_THAT(aggregator->plan_report().reason, ::testing::HasSubstr("an injected fault"));
  EXPECT_EQ(aggregator->plan_report().plan, "wide");

  EXPECT_EQ(Difference(Expected(spec_), testing::Reduce(*backend, spec_, updates)), "");
  EXPECT_EQ(losses, 1) << "told once";
}

TEST_F(FaultsTest, WithoutASecondBackEndALossIsAnErrorAndStaysOne) {
  const auto backend = *MakeCudaBackend({}, kSmallBatches);
  TheFakeGpu().fails_at_call = TheFakeGpu().calls + 50;
  const auto result = testing::Reduce(*backend, spec_, Updates(spec_));
  EXPECT_EQ(ErrorReason(result.status()), "GPU_LOST");
  testing::ResetFakeGpu();  // the device answers again, but what it holds cannot be trusted
  const auto plan = MakePlan(spec_, {}, backend->info());
  EXPECT_EQ(ErrorReason(backend->NewAggregator(*plan).status()), "GPU_LOST");
}

TEST_F(FaultsTest, ALostDeviceFailsATestAndEndsNoTestProcess) {
  const auto backend = *MakeCudaBackend({}, kSmallBatches);
  TheFakeGpu().fails_at_call = TheFakeGpu().calls + 50;
  EXPECT_FALSE(testing::Reduce(*backend, spec_, Updates(spec_)).ok());
  EXPECT_EQ(ErrorReason(testing::Reduce(*backend, spec_, Updates(spec_)).status()), "GPU_LOST");
  EXPECT_THROW(testing::NewAggregator(*backend, spec_), testing::StatusError);
}

TEST_F(FaultsTest, TheErrorOfALostDeviceNamesTheKernelsThatMayHaveMadeIt) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1000, 1);
  const auto updates = Updates(spec);
  const auto message_of = [&](const std::string& plan, uint64_t call) {
    testing::ResetFakeGpu();
    const auto backend = *MakeCudaBackend({}, kUsualBatches);
    testing::ResetFakeGpu();
    TheFakeGpu().fails_at_call = call;
    return std::string(testing::Reduce(*backend, spec, updates, plan).status().message());
  };
  const std::pair<const char*, const char*> plans[] = {
      {"radix_segments", "Pack, FindSpans, SumSpans<float>"},
      {"row_reduce", "Pack, cub::DeviceRadixSort::SortKeys, CountHeads, thrust::exclusive_scan, "},
      {"cusparse_spmm", "CutLimb<float>, cusparseSpMM, AddLimb"},
      {"thrust_sort_reduce", "thrust::reduce_by_key"}};
  for (const auto& [plan, names] : plans) {
    bool wait_names = false;
    bool launch_names = false;
    std::string message;
    for (uint64_t call = 1; call == 1 || !message.empty(); ++call) {
      message = message_of(plan, call);
      launch_names |= message.find("launch of ") != std::string::npos;
      wait_names |= message.find("Synchronize: an injected fault") != std::string::npos &&
                    message.find(names) != std::string::npos;
    }
    EXPECT_TRUE(launch_names) << plan;
    EXPECT_TRUE(wait_names) << plan;
  }
}

// Its planner believes that everything fits.
class WithoutAPlanTooLarge : public Backend {
 public:
  explicit WithoutAPlanTooLarge(Backend& backend) : backend_(backend), info_(backend.info()) {
    info_.memory_bytes = std::numeric_limits<uint64_t>::max();
  }
  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    return backend_.NewAggregator(plan);
  }

 private:
  Backend& backend_;
  BackendInfo info_;
};

TEST_F(FaultsTest, WithLittleMemoryBatchesShrinkAndTheStateMovesToTheHost) {
  const auto expected = Expected(spec_);
  const auto reduce = [&](Backend& backend, const std::string& plan) {
    WithoutAPlanTooLarge unlimited(backend);
    return testing::Reduce(unlimited, spec_, Updates(spec_), plan);
  };
  const auto plans = (*MakeCudaBackend({}, kUsualBatches))->info().plans;
  ASSERT_EQ(plans.size(), 7u);
  for (const std::string& plan : plans) {
    uint64_t needed = 0;
    {
      const auto backend = *MakeCudaBackend({}, kUsualBatches);
      testing::ResetFakeGpu();
      ASSERT_EQ(Difference(expected, reduce(*backend, plan)), "");
      needed = TheFakeGpu().memory_peak;
    }
    // Far less than one batch of everything takes, down to where one row is too much. In steps
    // that are less than most allocations, so that every one of them is once the first to fail.
    bool refused = false;
    int smaller = 0;
    for (uint64_t memory = needed; memory > 64 && !refused; memory -= memory / 50 + 1) {
      const auto backend = *MakeCudaBackend({.memory_bytes = memory}, kUsualBatches);
      const auto result = reduce(*backend, plan);
      refused = !result.ok();
      if (refused) {
        EXPECT_EQ(ErrorReason(result.status()), "GPU_OUT_OF_MEMORY") << plan << " " << memory;
        EXPECT_TRUE(backend->health().ok());
      } else {
        ASSERT_EQ(Difference(expected, result), "") << plan << " with " << memory;
        ++smaller;
      }
    }
    EXPECT_TRUE(refused) << plan;
    EXPECT_GE(smaller, 5) << plan;
  }
}

// The last memory that a result takes is for the rows of the side table: those are all rows here,
// and there is too little for them until the state has left the device.
TEST_F(FaultsTest, AResultThatFailsHalfWayIsMadeAgainFromTheBeginning) {
  constexpr uint64_t kRows = 2048;
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF64, kRows, 1);
  const auto updates = testing::MakeUpdates(spec,
                                            {.nnz = kRows,
                                             .contributors = 3,
                                             .distribution = testing::Distribution::kSorted,
                                             .values = testing::Values::kHostile},
                                            5);
  const auto expected = testing::Reduce(*reference_, spec, updates);
  for (const char* plan : {"dense_accumulate", "cusparse_dense"}) {
    int made = 0;
    for (uint64_t bytes_per_row = 120; bytes_per_row > 40; --bytes_per_row) {
      const auto backend = *MakeCudaBackend({.memory_bytes = bytes_per_row * kRows}, kSmallBatches);
      WithoutAPlanTooLarge unlimited(*backend);
      const auto result = testing::Reduce(unlimited, spec, updates, plan);
      if (!result.ok()) continue;
      ASSERT_EQ(Difference(expected, result), "") << plan << ", " << bytes_per_row << " a row";
      ++made;
    }
    EXPECT_GT(made, 40) << plan;
  }
}

TEST_F(FaultsTest, WithoutMemoryForOneRowTheSecondBackEndTakesOverAndTheDeviceStaysHealthy) {
  const auto backend = MakeFailoverBackend(*MakeCudaBackend({.memory_bytes = 256}, kUsualBatches),
                                           *MakeReferenceBackend({}), {});
  EXPECT_EQ(Difference(Expected(spec_), testing::Reduce(*backend, spec_, Updates(spec_))), "");
  EXPECT_TRUE(backend->health().ok());
}

TEST_F(FaultsTest, ALibraryThatRefusesATensorCostsThatTensorAndNotTheDevice) {
  for (const char* plan : {"cusparse_spmm", "cusparse_dense", "thrust_sort_reduce"}) {
    int losses = 0;
    const auto cuda = *MakeCudaBackend({}, kUsualBatches);
    const auto both = CudaOverReference(losses);
    TheFakeGpu().in_library = [] { throw std::runtime_error("not supported"); };
    const auto result = testing::Reduce(*cuda, spec_, Updates(spec_), plan);
    EXPECT_EQ(ErrorReason(result.status()), "GPU_REFUSED") << plan;
    EXPECT_THAT(std::string(result.status().message()), ::testing::HasSubstr("not supported"));
    EXPECT_EQ(Difference(Expected(spec_), testing::Reduce(*both, spec_, Updates(spec_), plan)), "");
    testing::ResetFakeGpu();
    EXPECT_TRUE(cuda->health().ok()) << plan;
    EXPECT_EQ(Difference(Expected(spec_), testing::Reduce(*cuda, spec_, Updates(spec_), plan)), "");
    EXPECT_EQ(losses, 0) << plan;
  }
}

// Two threads that wait at once would look to the watchdog like one that waits for ever.
TEST_F(FaultsTest, ABatchThatIsRefusedEndsOnTheDeviceThreadWhoeverAsksForItsEnd) {
  const auto backend =
      *MakeCudaBackend({}, {.calibrate = false, .upload_bytes = 1, .batch_bytes = 1});
  testing::ResetFakeGpu();
  TheFakeGpu().in_library = [calls = std::make_shared<int>(0)] {
    if (++*calls == 1) throw std::runtime_error("not supported");
  };
  const auto updates = Updates(spec_);
  const auto refused = testing::NewAggregator(*backend, spec_, "thrust_sort_reduce");
  for (const size_t u : {0, 1}) {  // the second one begins a batch
    ASSERT_TRUE(
        refused->Accumulate(testing::StageCopy(*refused, updates[u]), updates[u].weight).ok());
  }
  // Its turn comes after that batch.
  const auto other = testing::NewAggregator(*backend, spec_);
  ASSERT_TRUE(other->Accumulate(testing::StageCopy(*other, updates[0]), updates[0].weight).ok());
  ASSERT_TRUE(other->Snapshot().ok());
  EXPECT_EQ(ErrorReason(std::move(*refused).Report().status()), "GPU_REFUSED");
  EXPECT_FALSE(TheFakeGpu().waiting_threads.contains(std::this_thread::get_id()));
}

TEST_F(FaultsTest, ALibraryThatThrowsSinceTheDeviceHasFailedMeansALoss) {
  const auto backend = *MakeCudaBackend({}, kUsualBatches);
  TheFakeGpu().in_library = [] {
    TheFakeGpu().fails_at_call = 1;
    throw std::runtime_error("execution failed");
  };
  const auto result = testing::Reduce(*backend, spec_, Updates(spec_), "cusparse_spmm");
  EXPECT_EQ(ErrorReason(result.status()), "GPU_LOST");
}

TEST_F(FaultsTest, ThrustWithoutMemoryIsAskedAgainForLess) {
  const auto backend = *MakeCudaBackend({}, kUsualBatches);
  TheFakeGpu().in_library = [calls = std::make_shared<int>(0)] {
    if (++*calls == 2) testing::ThrowAsThrust(cudaErrorMemoryAllocation);
  };
  EXPECT_EQ(Difference(Expected(spec_),
                       testing::Reduce(*backend, spec_, Updates(spec_), "thrust_sort_reduce")),
            "");
  EXPECT_TRUE(backend->health().ok());
}

TEST_F(FaultsTest, WithoutPagesToLockUpdatesAndResultsGoThroughOrdinaryMemory) {
  // Results of several hundred kilobytes: what is small goes there anyway.
  const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, 100'000, 64);
  const auto updates = testing::MakeUpdates(spec, {.nnz = 2000, .contributors = 3}, 5);
  const auto expected = testing::Reduce(*reference_, spec, updates);
  ASSERT_GT(expected->tensor.values.size(), size_t{256} << 10);
  // None at all, and enough for staging and counts but not for results.
  for (const uint64_t pinned : {uint64_t{0}, uint64_t{17} << 20}) {
    TheFakeMachine().pinned_bytes = pinned;
    const auto backend = *MakeCudaBackend({}, kSmallBatches);
    EXPECT_EQ(Difference(expected, testing::Reduce(*backend, spec, updates)), "") << pinned;
    EXPECT_TRUE(backend->health().ok()) << pinned;
  }
}

TEST_F(FaultsTest, WithoutAGpuThereIsNoBackEndAndTheErrorSaysWhy) {
  TheFakeMachine().devices = 0;
  const auto backend = MakeCudaBackend({});
  EXPECT_EQ(ErrorReason(backend.status()), "NO_GPU");
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(FaultsTest, WithAnOldDriverOrNoneTheErrorSaysWhichIsNeeded) {
  const std::string needed = absl::StrCat("this build needs one for CUDA ", CUDART_VERSION / 1000,
                                          ".", CUDART_VERSION % 1000 / 10, " or newer");
  for (const auto& [version, what] :
       {std::pair{12040, "the driver is one for CUDA 12.4, "}, {0, "there is no driver, "}}) {
    TheFakeMachine().driver_version = version;
    const absl::Status status = MakeCudaBackend({}).status();
    EXPECT_EQ(ErrorReason(status), "NO_GPU");
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(what + needed));
  }
}

TEST_F(FaultsTest, NothingIsLeftAllocated) {
  {
    const auto backend = *MakeCudaBackend({}, kSmallBatches);
    ASSERT_TRUE(testing::Reduce(*backend, spec_, Updates(spec_)).ok());
  }
  EXPECT_EQ(TheFakeGpu().memory_used, 0u);
  EXPECT_EQ(TheFakeMachine().pinned_used, 0u);
}

}  // namespace
}  // namespace sparseagg
