// The two ways from a dense state to a run, on the fake GPU: our kernel, and cuSPARSE's conversion
// and gather by ranges of the index space.
#include "cuda/kernels/dense_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/kernels/cusparse/cusparse_dense.h"

namespace sparseagg::gpu {
namespace {

struct HostRun {
  std::vector<uint64_t> rows;
  std::vector<Int128> slots;
  bool operator==(const HostRun&) const = default;
};

class DenseStateTest : public ::testing::Test {
 protected:
  // A run on the device, whose memory the test sees.
  gpu::SlotRun Upload(const HostRun& from) {
    gpu::SlotRun run{{queue_, from.rows.size()}, {queue_, from.slots.size()}, from.rows.size()};
    queue_.Upload(run.rows.data(), from.rows.data(), from.rows.size());
    queue_.Upload(run.slots.data(), from.slots.data(), from.slots.size());
    return run;
  }
  static HostRun Fetch(const SlotRule& rule, const gpu::SlotRun& run) {
    return {{run.rows.data(), run.rows.data() + run.size},
            {run.slots.data(), run.slots.data() + run.size * rule.slots()}};
  }
  // Every way gives the run that was added.
  void ExpectListed(const SlotRule& rule, uint64_t num_rows, const HostRun& run) {
    DenseState state = MakeDenseState(queue_, rule, num_rows);
    AddRun(queue_, rule, Upload(run), state);
    EXPECT_TRUE(Fetch(rule, ListHeld(queue_, rule, state)) == run);
    EXPECT_TRUE(Fetch(rule, ListHeldByCusparse(queue_, rule, state)) == run);
    for (const uint64_t rows : {32u, 1000u, 1024u, 1025u, 4096u}) {
      EXPECT_TRUE(Fetch(rule, ListHeldInRanges(queue_, rule, state, rows)) == run)
          << num_rows << " rows, " << rows << " at a time";
    }
  }

  MemoryPool pool_{0, uint64_t{1} << 30};
  Queue queue_{pool_};
};

const SlotRule kSums{.type = ValueType::kI64};

TEST_F(DenseStateTest, AHeldRowWhoseSumIsZeroIsInTheRun) {
  ExpectListed(kSums, 5000, {{7, 1023, 1024, 4999}, {0, 0, 5, 0}});
}

TEST_F(DenseStateTest, NobodyHoldsARow) {
  ExpectListed(kSums, 5000, {});
  ExpectListed(kSums, 1, {});
}

TEST_F(DenseStateTest, EveryRowIsHeldAndTheIndexSpaceEndsInsideARange) {
  for (const uint64_t num_rows : {1u, 31u, 33u, 1023u, 1024u, 1025u, 3000u}) {
    HostRun run;
    for (uint64_t r = 0; r < num_rows; ++r) {
      run.rows.push_back(r);
      run.slots.push_back(static_cast<Int128>(r) - 5);
    }
    ExpectListed(kSums, num_rows, run);
  }
}

// As an f64 or a complex one these would be NaN, -0, subnormal and infinite.
TEST_F(DenseStateTest, SlotsOfAnyBitsAreMovedAsTheyAre) {
  const SlotRule rule{
      .values = ValueSlots::kExactSum, .row = RowSlot::kOne, .type = ValueType::kI64, .width = 2};
  const auto slot = [](uint64_t high, uint64_t low) {
    return static_cast<Int128>(static_cast<UInt128>(high) << 64 | low);
  };
  ExpectListed(rule, 3000,
               {{3, 2999},
                {slot(0x7FF4'0000'0000'0001, 0xFFF8'0000'0000'0000), slot(uint64_t{1} << 63, 1), 1,
                 slot(0x7FF0'0000'0000'0000, uint64_t{1} << 63), slot(0, 1), 2}});
}

TEST_F(DenseStateTest, KeysOfMinAndMaxComeBack) {
  for (const ValueSlots values : {ValueSlots::kMin, ValueSlots::kMax}) {
    ExpectListed({.values = values, .type = ValueType::kI64, .width = 2}, 2000,
                 {{0, 1500}, {-1, INT64_MIN, INT64_MAX, 0}});
    ExpectListed({.values = values, .type = ValueType::kU64, .width = 1}, 2000,
                 {{0, 1500}, {static_cast<Int128>(UINT64_MAX), 1}});
  }
}

}  // namespace
}  // namespace sparseagg::gpu
