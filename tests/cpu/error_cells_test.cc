// Where rounding errors are many, they become further doubles of their cells
// (cpu/state/error_cells.h): sums stay exact while they grow, and are rounded to the bytes that
// side entries would give.
#include "cpu/state/error_cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernels/kernels.h"
#include "cpu/state/side_table.h"
#include "sparse/reference_backend.h"
#include "sparse/wide_integer.h"
#include "tests/cpu/only_target.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr uint64_t kBegin = uint64_t{1} << 40;

// A float of any exponent, as a double.
double AnyFloat(std::mt19937_64& random) {
  for (;;) {
    const auto value = BitCast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) return value;
  }
}

// Returns the sums, [rows, columns], that error cells and side entries hold together.
std::vector<WideInteger> SumsOf(const ErrorCells& errors, const SideTable& side) {
  std::vector<WideInteger> sums(errors.size());
  errors.ForEach([&](uint64_t row, uint32_t column, double error) {
    sums[errors.IndexOf(row, column)].Add(error);
  });
  for (const SideEntry& entry : side.entries()) {
    sums[errors.IndexOf(entry.row, entry.column)].AddScaled(entry.significand, entry.exponent);
  }
  return sums;
}

TEST(ErrorCells, CoverTheirRowsAndColumnsAndNoOthers) {
  ErrorCells errors;
  errors.Cover(kBegin, 3, 8, 4);
  EXPECT_EQ(errors.size(), 12u);
  EXPECT_TRUE(errors.Covers(kBegin, 8));
  EXPECT_TRUE(errors.Covers(kBegin + 2, 11));
  EXPECT_FALSE(errors.Covers(kBegin - 1, 8));
  EXPECT_FALSE(errors.Covers(kBegin + 3, 8));
  EXPECT_FALSE(errors.Covers(kBegin, 7));
  EXPECT_FALSE(errors.Covers(kBegin, 12));
  EXPECT_EQ(errors.IndexOf(kBegin + 1, 9), 5u);
  EXPECT_EQ(errors.levels(), 0u);
}

TEST(ErrorCells, KeepEveryBit) {
  std::mt19937_64 random(1);
  ErrorCells errors;
  errors.Cover(kBegin, 40, 0, 1);
  std::vector<WideInteger> expected(40);
  for (int i = 0; i < 20'000; ++i) {
    const size_t at = random() % 40;
    const double value = AnyFloat(random);
    expected[at].Add(value);
    expected[at].Add(-errors.Add(at, value));  // what did not fit
  }
  EXPECT_GT(errors.levels(), 3u);
  EXPECT_EQ(SumsOf(errors, {}), expected);
  errors.Clear();
  EXPECT_EQ(errors.levels(), 0u);
  EXPECT_EQ(errors.Add(7, 0.5), 0.0);
  EXPECT_EQ(errors.level(0)[7], 0.5);
  EXPECT_EQ(errors.level(0)[8], 0.0);
}

TEST(ErrorCells, ReturnWhatDoesNotFit) {
  ErrorCells errors;
  errors.Cover(0, 1, 0, 1);
  for (int i = 0; i < static_cast<int>(ErrorCells::kLevelsMax); ++i) {
    EXPECT_EQ(errors.Add(0, std::ldexp(1.0, 500 - 100 * i)), 0.0);
  }
  EXPECT_EQ(errors.Add(0, 0x1p-300), 0x1p-300);
  EXPECT_EQ(errors.Level(ErrorCells::kLevelsMax), nullptr);
}

TEST(AttachedSideTable, PutsManyErrorsIntoCells) {
  std::mt19937_64 random(2);
  ErrorCells errors;
  errors.Cover(kBegin, 500, 0, 2);
  SideTable side;
  side.Attach(errors);
  std::vector<WideInteger> expected(errors.size());
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t row = kBegin + random() % 500;
    const auto column = static_cast<uint32_t>(random() % 2);
    const double value = AnyFloat(random);
    side.Push(row, column, value);
    expected[errors.IndexOf(row, column)].Add(value);
  }
  EXPECT_EQ(side.pushed(), 10'000u);
  EXPECT_LT(side.size(), 10u);
  EXPECT_GT(errors.levels(), 3u);
  EXPECT_EQ(SumsOf(errors, side), expected);
  side.Detach();
  // The errors of one cell become entries; the others stay.
  side.ExtractErrors(errors, kBegin + 3, 1);
  EXPECT_EQ(errors.level(0)[errors.IndexOf(kBegin + 3, 1)], 0.0);
  EXPECT_EQ(SumsOf(errors, side), expected);
  // All errors become entries.
  side.Append(errors);
  errors.Clear();
  EXPECT_EQ(SumsOf(errors, side), expected);
}

TEST(AttachedSideTable, KeepsWhatCellsDoNotCoverOrCannotHold) {
  ErrorCells errors;
  errors.Cover(kBegin, 100, 0, 1);
  errors.Level(0);  // as if there had been many
  SideTable side;
  side.Push(kBegin, 0, 1.0);  // before Attach(): stays an entry
  side.Attach(errors);
  side.Push(kBegin, 1, 1.0);  // the row's cell
  side.Push(kBegin + 100, 0, 1.0);
  side.Push(kBegin + 4, 0, 0x1p971);
  EXPECT_EQ(side.size(), 4u);
  side.Push(kBegin + 4, 0, 1.0);
  EXPECT_EQ(side.size(), 4u);
  EXPECT_EQ(errors.level(0)[4], 1.0);
}

TEST(AttachedSideTable, MakesNoCellsForFewSlots) {
  std::mt19937_64 random(3);
  ErrorCells errors;
  errors.Cover(kBegin, 100'000, 0, 1);
  SideTable side;
  side.Attach(errors);
  std::vector<WideInteger> expected(2);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t row = random() % 2;
    const double value = AnyFloat(random);
    side.Push(kBegin + row, 0, value);
    expected[row].Add(value);
  }
  EXPECT_EQ(errors.levels(), 0u);
  std::vector<WideInteger> sums = SumsOf(errors, side);
  sums.resize(2);
  EXPECT_EQ(sums, expected);
}

// Makes cells that rounding twice, or estimating a rest, would get wrong; the first is empty.
struct Settled {
  static constexpr size_t kRows = 200;

  explicit Settled(FloatFormat format) : cells(kRows) {
    std::mt19937_64 random(4);
    errors.Cover(kBegin, kRows, 0, 1);
    cells[0] = -0.0;
    for (size_t row = 1; row < kRows; ++row) {
      cells[row] = 0.0;
      const double tie = 1.0 + std::ldexp(1.0, -format.precision);
      switch (random() % 5) {
        case 0:
          for (int i = 0; i < 12; ++i) Add(row, AnyFloat(random));
          break;
        case 1:  // halfway, and a little more or less, or nothing
          for (const double part : {tie, 0x1p-60, -0x1p-60}) Add(row, part);
          Add(row, std::ldexp(static_cast<double>(random() % 3) - 1.0, -100));
          break;
        case 2:  // everything cancels but the last
          for (const double sign : {1.0, -1.0}) {
            for (int i = 0; i < 5; ++i) Add(row, sign * std::ldexp(1.0, 100 - 60 * i));
          }
          Add(row, static_cast<double>(random() % 3) - 1.0);
          break;
        case 3:  // halfway between two doubles, and a little
          for (const double part : {1.0, 0x1p-53, 0x1p-110}) Add(row, row % 2 == 0 ? part : -part);
          Add(row, (static_cast<double>(random() % 3) - 1.0) * 0x1p-140);
          break;
        default:
          Add(row, AnyFloat(random));
      }
    }
  }

  void Add(size_t row, double value) {
    ASSERT_EQ(errors.Add(row, AddExact(cells[row], value)), 0.0);
  }

  std::vector<double> cells;
  ErrorCells errors;
};

void ExpectSettledRoundsAsSideEntriesDo(const std::string& op, ValueType type, FloatFormat format) {
  const ReduceSpec spec = MakeSpec(op, type, kBegin * 2, 1);
  const CpuKernels& kernels = *KernelsFor(type, op);
  Settled sums(format);
  SideTable side;
  side.Append(sums.errors);
  std::vector<uint64_t> rows;
  for (uint64_t row = 1; row < Settled::kRows; ++row) rows.push_back(kBegin + row);
  std::vector<std::byte> results[2];
  uint64_t infinite[2] = {0, 0};
  const auto finalize = [&](int i, SideRange of_cells) {
    results[i].resize(rows.size() * SizeOf(type));
    const CellBlock block{rows.data(), reinterpret_cast<std::byte*>(sums.cells.data() + 1)};
    EXPECT_TRUE(
        kernels.finalize(spec, 3.0, block, rows.size(), of_cells, results[i].data(), infinite[i])
            .ok());
  };
  finalize(0, side.entries());
  // The range neither begins at the first cell nor is a whole number of vectors.
  const double untouched = sums.cells[1];
  kernels.settle(reinterpret_cast<std::byte*>(sums.cells.data()), sums.errors, 0, 1);
  EXPECT_TRUE(std::signbit(sums.cells[0])) << "an empty cell is held";
  EXPECT_EQ(sums.cells[1], untouched);
  kernels.settle(reinterpret_cast<std::byte*>(sums.cells.data() + 1), sums.errors, 1,
                 Settled::kRows - 1);
  finalize(1, {});
  EXPECT_EQ(infinite[0], infinite[1]);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t at = i * SizeOf(type);
    ASSERT_EQ(std::memcmp(results[0].data() + at, results[1].data() + at, SizeOf(type)), 0)
        << "row " << i + 1;
  }
}

TEST(ErrorCells, RoundToTheBytesOfSideEntries) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const OnlyTarget only(target);
    for (const std::string op : {"sum", "weighted_mean"}) {
      SCOPED_TRACE(absl::StrCat(hwy::TargetName(target), " ", op));
      ExpectSettledRoundsAsSideEntriesDo(op, ValueType::kF32, kFormatF32);
      ExpectSettledRoundsAsSideEntriesDo(op, ValueType::kF64, kFormatF64);
      ExpectSettledRoundsAsSideEntriesDo(op, ValueType::kF16, ValueTraits<F16>::kFormat);
      ExpectSettledRoundsAsSideEntriesDo(op, ValueType::kBF16, ValueTraits<BF16>::kFormat);
    }
  }
}

// Every cell is touched often, by values of every exponent.
TEST(ErrorCells, GiveTheBytesOfTheReference) {
  const auto reference = *MakeReferenceBackend({});
  const auto cpu = *MakeCpuBackend({.threads = 3, .memory_bytes = uint64_t{1} << 30});
  const struct {
    uint64_t num_rows;
    uint32_t width;
    Distribution distribution;
  } cases[] = {{20'000, 1, Distribution::kSorted},
               {20'000, 1, Distribution::kDistinct},
               {700, 17, Distribution::kSorted},
               {700, 64, Distribution::kDistinct},
               {1, 9000, Distribution::kSorted}};
  uint64_t seed = 1;
  for (const auto& c : cases) {
    for (const std::string op : {"sum", "mean_of_contributors"}) {
      const ReduceSpec spec = MakeSpec(op, ValueType::kF32, c.num_rows, c.width);
      const uint64_t nnz = std::max<uint64_t>(1, c.num_rows / 2);
      const std::vector<Update> updates =
          MakeUpdates(spec, {nnz, 12, c.distribution, Values::kHostile}, seed++);
      const auto expected = Reduce(*reference, spec, updates);
      for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        const OnlyTarget only(target);
        for (const std::string& plan : PlansFor(*cpu, spec)) {
          SCOPED_TRACE(
              absl::StrCat(hwy::TargetName(target), " ", plan, " ", op, " width ", c.width));
          EXPECT_EQ(Difference(expected, Reduce(*cpu, spec, updates, plan)), "");
          EXPECT_EQ(Difference(expected, Reduce(*cpu, spec, updates, plan, &StagePackedCopy)), "");
          auto aggregator = NewAggregator(*cpu, spec, plan);
          auto other = NewAggregator(*cpu, spec, plan);  // continues from a snapshot
          for (size_t u = 0; u < updates.size(); ++u) {
            const float weight = updates[u].weight;
            ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, updates[u]), weight).ok());
            if (u > 9) {
              ASSERT_TRUE(other->Accumulate(StageCopy(*other, updates[u]), weight).ok());
            } else if (u % 5 == 4) {
              const auto partial = aggregator->Snapshot();
              ASSERT_TRUE(partial.ok());
              ASSERT_TRUE(u != 9 || other->Merge(*partial).ok());
            }
          }
          EXPECT_EQ(Difference(expected, std::move(*other).Report()), "") << "from a snapshot";
          EXPECT_EQ(Difference(expected, std::move(*aggregator).Report()), "") << "folded";
        }
      }
    }
  }
}

// A cell and its error cells lose bits when they become one double. Side entries of earlier batches
// may cancel all bits but those.
TEST(ErrorCells, AreNotRoundedWhereSideEntriesFollow) {
  constexpr uint64_t kRows = 6000;  // two updates are few entries, three are many
  const auto cpu = *MakeCpuBackend({.threads = 3, .memory_bytes = uint64_t{1} << 30});
  for (const uint32_t width : {1u, 16u}) {
    const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, kRows, width);
    const auto update_of = [&](float value) {
      Update update;
      for (uint64_t row = 0; row < kRows; ++row) update.rows.push_back(row);
      const std::vector<float> values(kRows * width, value);
      update.values.resize(values.size() * sizeof(float));
      std::memcpy(update.values.data(), values.data(), update.values.size());
      return update;
    };
    for (const std::string& plan : PlansFor(*cpu, spec)) {
      const auto aggregator = NewAggregator(*cpu, spec, plan);
      const auto add = [&](float value) {
        return aggregator->Accumulate(StageCopy(*aggregator, update_of(value)), 1.0f);
      };
      for (const float value : {0x1p120f, -0x1p60f}) ASSERT_TRUE(add(value).ok());
      ASSERT_TRUE(aggregator->Snapshot().ok());
      for (const float value : {-0x1p120f, 0x1p60f, 0x1p-60f}) ASSERT_TRUE(add(value).ok());
      const auto result = std::move(*aggregator).Report();
      ASSERT_TRUE(result.ok());
      ASSERT_EQ(result->tensor.nnz(), kRows);
      for (size_t i = 0; i < kRows * width; ++i) {
        float value;
        std::memcpy(&value, result->tensor.values.data() + i * sizeof(float), sizeof(float));
        ASSERT_EQ(value, 0x1p-60f) << plan << " width " << width << " value " << i;
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg::testing
