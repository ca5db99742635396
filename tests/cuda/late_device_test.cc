// What a device that runs everything as late as it may shows: memory that is given back while
// kernels that read it are queued. The GPU is fake.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/status.h"
#include "cuda/cuda_backend.h"
#include "cuda/device_reduction.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg::gpu {
namespace {

using sparseagg::testing::Difference;
using sparseagg::testing::MakeSpec;
using sparseagg::testing::MakeUpdates;
using sparseagg::testing::ResetFakeGpu;
using sparseagg::testing::TheFakeGpu;
using sparseagg::testing::TheFakeMachine;
using sparseagg::testing::Update;

// Its kernels that read the batch are queued when the product is called, which comes after the
// library's scan.
constexpr char kPlan[] = "cusparse_spmm";
constexpr int kCallsBeforeTheProduct = 1;

class LateDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetFakeGpu();
    TheFakeMachine().late = true;
  }
  void TearDown() override { ResetFakeGpu(); }

  void AddTo(Batch& batch) {
    for (const Update& update : updates_) {
      StagedUpdate staged = context_.staging.Stage(spec_.layout, update.rows.size()).value();
      std::copy(update.rows.begin(), update.rows.end(), staged.entries.rows.wide());
      std::memcpy(staged.entries.values, update.values.data(), update.values.size());
      staged.order = ValidateUpdate(spec_, staged.entries.view(), update.weight).value();
      batch.Add({std::move(staged), update.weight});
    }
    batch.Upload();
  }
  void ExpectAFoldToThrowAndToFreeNothingThatKernelsMayRead() {
    {
      DeviceReduction reduction(spec_, kPlan, context_);
      Batch batch(context_.uploads, context_.staging);
      AddTo(batch);
      EXPECT_THROW(reduction.Fold(batch), std::bad_alloc);
    }
    // The queue of uploads ends first what it has; the one of kernels is late.
    context_.uploads.queue.Synchronize();
    context_.queue.Synchronize();
    EXPECT_EQ(TheFakeGpu().early_frees, 0u);
    EXPECT_EQ(pool_.used_bytes(), 0u);
  }

  const ReduceSpec spec_ = MakeSpec("sum", ValueType::kF32, 500, 2);
  const std::vector<Update> updates_ = MakeUpdates(spec_, {.nnz = 300, .contributors = 6}, 7);
  MemoryPool pool_{0, uint64_t{1} << 30};
  Context context_{pool_, uint64_t{64} << 20};
};

TEST_F(LateDeviceTest, ABadAllocWithKernelsQueuedFreesNothingThatTheyRead) {
  TheFakeGpu().in_library = [calls = std::make_shared<int>(0)] {
    if ((*calls)++ == kCallsBeforeTheProduct) throw std::bad_alloc();
  };
  ExpectAFoldToThrowAndToFreeNothingThatKernelsMayRead();
}

TEST_F(LateDeviceTest, NorDoesOneInTheHalfOfABatchThatWasTooLarge) {
  TheFakeGpu().in_library = [calls = std::make_shared<int>(0)] {
    const int call = (*calls)++;
    if (call == 0) sparseagg::testing::ThrowAsThrust(cudaErrorMemoryAllocation);
    if (call == 1 + kCallsBeforeTheProduct) throw std::bad_alloc();
  };
  ExpectAFoldToThrowAndToFreeNothingThatKernelsMayRead();
}

TEST_F(LateDeviceTest, ARoundThatLacksMemoryCostsOtherRoundsNoBit) {
  const auto backend = *MakeCudaBackend({}, {.calibrate = false, .upload_bytes = 1});
  const auto expected = sparseagg::testing::Reduce(**MakeReferenceBackend({}), spec_, updates_);
  TheFakeGpu().in_library = [calls = std::make_shared<int>(0)] {
    if ((*calls)++ == kCallsBeforeTheProduct) throw std::bad_alloc();
  };
  EXPECT_EQ(ErrorReason(sparseagg::testing::Reduce(*backend, spec_, updates_, kPlan).status()),
            "OUT_OF_MEMORY");
  EXPECT_EQ(Difference(expected, sparseagg::testing::Reduce(*backend, spec_, updates_, kPlan)), "");
  EXPECT_EQ(TheFakeGpu().early_frees, 0u);
}

TEST_F(LateDeviceTest, NothingRunsBeforeTheHostWaitsForIt) {
  DeviceArray<uint64_t> number(context_.queue, 1);
  *number.data() = 3;
  context_.queue.Fill(number.data(), 0, 1);
  EXPECT_EQ(*number.data(), 3u);
  Event filled;
  filled.Record(context_.queue.cuda_stream());
  Queue other(pool_);
  other.stream().WaitFor(filled);
  DeviceArray<uint64_t> copy(other, 1);
  other.CopyOnDevice(copy.data(), number.data(), 1);
  EXPECT_EQ(*number.data(), 3u);
  other.Synchronize();
  EXPECT_EQ(*copy.data(), 0u) << "the other queue waits for the event";
}

}  // namespace
}  // namespace sparseagg::gpu
