// If one allocation of a reduction fails, whichever it is, the caller gets OUT_OF_MEMORY or the
// usual result; the back end throws nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cpu/cpu_backend.h"
#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace {

// Allocations before the one that fails; below zero: none fails.
std::atomic<int64_t> allocations_left{-1};

void* Allocate(size_t bytes) {
  return allocations_left.fetch_sub(1) == 0 ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

void* operator new(size_t bytes) {
  void* memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
// Not inlined: g++ 12 would warn of free() beside a `new` that it sees as one.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

// AllocateHost() calls this.
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  void* memory = nullptr;
  if (allocations_left.fetch_sub(1) == 0) return nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

namespace sparseagg::testing {
namespace {

// Lets a number of allocations of the calls that are made through it succeed, and the next one
// fail.
class AllocationLimit {
 public:
  explicit AllocationLimit(int64_t allocations) : left_(allocations) {}

  template <class F>
  auto Run(const F& f) {
    allocations_left = left_;
    auto result = f();
    left_ = allocations_left.exchange(-1);
    return result;
  }
  int64_t left() const { return left_; }

 private:
  int64_t left_;
};

constexpr uint64_t kRows = 300'000;

std::vector<Update> MakeSome(const ReduceSpec& spec, uint64_t nnz) {
  return MakeUpdates(spec,
                     {.nnz = nnz, .contributors = 6, .distribution = Distribution::kOneHotRow}, 3);
}

// Reduces the updates, and folds once between them.
absl::StatusOr<Aggregate> ReduceWith(AllocationLimit& limit, Backend& backend,
                                     const ReduceSpec& spec, const std::vector<Update>& updates,
                                     const std::string& plan) {
  const auto aggregator = NewAggregator(backend, spec, plan);
  for (size_t u = 0; u < updates.size(); ++u) {
    StagedUpdate staged = StageCopy(*aggregator, updates[u]);
    SPARSEAGG_RETURN_IF_ERROR(
        limit.Run([&] { return aggregator->Accumulate(std::move(staged), updates[u].weight); }));
    if (u != updates.size() / 2) continue;
    SPARSEAGG_RETURN_IF_ERROR(limit.Run([&] { return aggregator->Snapshot().status(); }));
  }
  return limit.Run([&] { return std::move(*aggregator).Report(); });
}

TEST(LackOfMemoryTest, AnyFailedAllocationOfAReductionIsAStatus) {
  const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, kRows, 1);
  const auto updates = MakeSome(spec, 5'000);
  const auto expected = Reduce(*MakeReferenceBackend({}).value(), spec, updates);
  for (const uint32_t threads : {1, 3}) {
    const auto cpu = *MakeCpuBackend({.threads = threads});
    for (const std::string& plan : cpu->info().plans) {
      AllocationLimit all(std::numeric_limits<int64_t>::max());
      ASSERT_EQ(Difference(expected, ReduceWith(all, *cpu, spec, updates, plan)), "");
      const int64_t used = std::numeric_limits<int64_t>::max() - all.left();
      int refused = 0;
      for (int64_t n = 0; n < used; ++n) {
        SCOPED_TRACE(absl::StrCat(plan, ", ", threads, " threads, allocation ", n, " of ", used));
        AllocationLimit some(n);
        const auto result = ReduceWith(some, *cpu, spec, updates, plan);
        if (result.ok()) {
          EXPECT_EQ(Difference(expected, result), "");
        } else {
          EXPECT_EQ(ErrorReason(result.status()), "OUT_OF_MEMORY") << result.status();
          ++refused;
        }
      }
      EXPECT_GT(refused, 0) << plan;
    }
  }
}

// Of a fold that failed half way a part of the batch is in the state.
TEST(LackOfMemoryTest, AFailedFoldOrMergeLeavesNoResultThatLacksEntries) {
  const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, kRows, 1);
  const auto updates = MakeSome(spec, 5'000);
  const auto reference = MakeReferenceBackend({}).value();
  const auto expected = Reduce(*reference, spec, updates);
  const auto cpu = *MakeCpuBackend({.threads = 1});
  for (const std::string& plan : cpu->info().plans) {
    const auto run = [&](AllocationLimit& limit) -> absl::StatusOr<Aggregate> {
      const auto aggregator = NewAggregator(*cpu, spec, plan);
      const auto other = NewAggregator(*cpu, spec, plan);
      for (size_t u = 0; u < updates.size(); ++u) {
        Aggregator& to = u % 2 == 0 ? *aggregator : *other;
        SPARSEAGG_RETURN_IF_ERROR(to.Accumulate(StageCopy(to, updates[u]), updates[u].weight));
      }
      const Partial partial = other->Snapshot().value();
      limit.Run([&] { return aggregator->Snapshot().status(); }).IgnoreError();
      Partial copy = partial;
      const absl::Status merged = limit.Run([&] { return aggregator->Merge(std::move(copy)); });
      if (!merged.ok()) SPARSEAGG_RETURN_IF_ERROR(aggregator->Merge(partial));  // a second time
      return std::move(*aggregator).Report();
    };
    AllocationLimit all(std::numeric_limits<int64_t>::max());
    ASSERT_EQ(Difference(expected, run(all)), "");
    const int64_t used = std::numeric_limits<int64_t>::max() - all.left();
    for (int64_t n = 0; n < used; ++n) {
      SCOPED_TRACE(absl::StrCat(plan, ", allocation ", n, " of ", used));
      AllocationLimit some(n);
      const auto result = run(some);
      if (result.ok()) {
        EXPECT_EQ(Difference(expected, result), "");
      } else {
        EXPECT_EQ(ErrorReason(result.status()), "OUT_OF_MEMORY") << result.status();
      }
    }
  }
}

TEST(LackOfMemoryTest, AnUpdateThatCannotBeKeptIsNotCounted) {
  const ReduceSpec spec = MakeSpec("weighted_mean", ValueType::kF32, kRows, 1);
  std::vector<Update> updates = MakeSome(spec, 100);
  for (Update& update : updates) update.weight = 3;
  const auto cpu = *MakeCpuBackend({.threads = 1});
  const auto aggregator = NewAggregator(*cpu, spec, "sweep");
  StagedUpdate first = StageCopy(*aggregator, updates[0]);
  AllocationLimit none(0);
  const absl::Status status =
      none.Run([&] { return aggregator->Accumulate(std::move(first), updates[0].weight); });
  EXPECT_EQ(ErrorReason(status), "OUT_OF_MEMORY") << status;
  EXPECT_EQ(aggregator->memory_bytes(), 0u);
  updates.erase(updates.begin());
  for (const Update& update : updates) {
    ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update), update.weight).ok());
  }
  EXPECT_EQ(Difference(Reduce(*MakeReferenceBackend({}).value(), spec, updates),
                       std::move(*aggregator).Report()),
            "");
}

TEST(LackOfMemoryTest, APartialAggregateThatCannotBeJoinedIsNotCounted) {
  const ReduceSpec spec = MakeSpec("weighted_mean", ValueType::kF32, kRows, 1);
  std::vector<Update> updates = MakeSome(spec, 100);
  for (Update& update : updates) update.weight = 3;
  const auto cpu = *MakeCpuBackend({.threads = 1});
  const auto aggregator = NewAggregator(*cpu, spec, "sweep");
  const auto other = NewAggregator(*cpu, spec, "sweep");
  for (size_t u = 0; u < updates.size(); ++u) {
    Aggregator& to = u < 3 ? *aggregator : *other;
    ASSERT_TRUE(to.Accumulate(StageCopy(to, updates[u]), updates[u].weight).ok());
  }
  ASSERT_TRUE(aggregator->Snapshot().ok());
  const Partial partial = other->Snapshot().value();
  int64_t allocations = 0;
  for (absl::Status status = absl::UnknownError(""); !status.ok(); ++allocations) {
    AllocationLimit some(allocations);
    Partial copy = partial;
    status = some.Run([&] { return aggregator->Merge(std::move(copy)); });
    if (!status.ok()) {
      EXPECT_EQ(ErrorReason(status), "OUT_OF_MEMORY") << status;
    }
  }
  EXPECT_GT(allocations, 1);
  EXPECT_EQ(Difference(Reduce(*MakeReferenceBackend({}).value(), spec, updates),
                       std::move(*aggregator).Report()),
            "");
}

}  // namespace
}  // namespace sparseagg::testing
