#include "cpu/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/host_vector.h"

namespace sparseagg {
namespace {

constexpr TensorLayout kLayout{1000, 3, ValueType::kF32};

struct Block {
  StagedUpdate update;
  unsigned char mark;
};

void Fill(const StagedUpdate& update, unsigned char mark) {
  if (update.entries.nnz == 0) return;
  std::memset(update.entries.rows.wide(), mark, update.entries.nnz * sizeof(uint64_t));
  std::memset(update.entries.values, mark, update.entries.nnz * kLayout.row_bytes());
}

bool HasOnly(const StagedUpdate& update, unsigned char mark) {
  const auto all = [&](const void* memory, size_t bytes) {
    const auto* begin = static_cast<const unsigned char*>(memory);
    return std::all_of(begin, begin + bytes, [&](unsigned char byte) { return byte == mark; });
  };
  return all(update.entries.rows.wide(), update.entries.nnz * sizeof(uint64_t)) &&
         all(update.entries.values, update.entries.nnz * kLayout.row_bytes());
}

// Stages, fills and releases updates in any order; none may write to the memory of another.
void StageAtRandom(StagingArea& area, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Block> held;
  for (int i = 0; i < 400; ++i) {
    const uint64_t nnz = random() % (i % 50 == 0 ? 400'000 : 3000);
    auto staged = area.Stage(kLayout, nnz);
    ASSERT_TRUE(staged.ok()) << staged.status();
    EXPECT_EQ(staged->entries.nnz, nnz);
    EXPECT_EQ(staged->entries.layout, kLayout);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(staged->entries.rows.wide()) % alignof(uint64_t), 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(staged->entries.values) % alignof(double), 0u);
    const auto mark = static_cast<unsigned char>(random());
    Fill(*staged, mark);
    held.push_back({*std::move(staged), mark});
    while (held.size() > 20) {
      std::swap(held[random() % held.size()], held.back());
      ASSERT_TRUE(HasOnly(held.back().update, held.back().mark));
      held.pop_back();
    }
  }
  for (const Block& block : held) EXPECT_TRUE(HasOnly(block.update, block.mark));
}

TEST(StagingArea, UpdatesHaveMemoryOfTheirOwn) {
  StagingArea area;
  StageAtRandom(area, 1);
}

TEST(StagingArea, SeveralThreadsMayStage) {
  StagingArea area;
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 4; ++t) threads.emplace_back([&, t] { StageAtRandom(area, t); });
}

TEST(StagingArea, IsTrimmedWhileOthersStage) {
  StagingArea area;
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 2; ++t) threads.emplace_back([&, t] { StageAtRandom(area, t); });
  threads.emplace_back([&] {
    for (int i = 0; i < 1000; ++i) area.Trim();
  });
}

TEST(StagingArea, UpdatesMayOutliveIt) {
  std::optional<StagingArea> area(std::in_place);
  std::vector<StagedUpdate> updates;
  for (int i = 0; i < 50; ++i) {
    updates.push_back(*area->Stage(kLayout, 1000 * i));
    Fill(updates.back(), static_cast<unsigned char>(i));
  }
  updates.erase(updates.begin() + 10, updates.begin() + 20);
  area.reset();
  for (const StagedUpdate& update : updates) {
    if (update.entries.nnz == 0) continue;
    EXPECT_TRUE(HasOnly(update, *reinterpret_cast<unsigned char*>(update.entries.rows.wide())));
  }
}

TEST(StagingArea, UpdatesThatAreFoldedAtOnceReuseTheirMemory) {
  StagingArea area;
  std::set<const uint64_t*> places;
  std::vector<StagedUpdate> held(10);
  for (int i = 0; i < 10'000; ++i) {
    held[i % held.size()] = *area.Stage(kLayout, 50);
    places.insert(held[i % held.size()].entries.rows.wide());
  }
  EXPECT_LT(places.size(), 200u) << "two regions of 64 KiB";
}

TEST(StagingArea, AnUpdateThatFitsNoMemoryIsRefused) {
  StagingArea area;
  for (uint64_t nnz : {uint64_t{1} << 60, ~uint64_t{0} / 20, ~uint64_t{0}}) {
    const auto staged = area.Stage(kLayout, nnz);
    EXPECT_EQ(staged.status().code(), absl::StatusCode::kResourceExhausted) << nnz;
  }
  EXPECT_TRUE(area.Stage(kLayout, 10).ok());
}

}  // namespace
}  // namespace sparseagg
