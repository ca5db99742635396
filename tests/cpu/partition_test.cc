#include "cpu/windowed/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

std::vector<RowWindow> WindowsOf(const std::set<uint64_t>& borders, uint64_t num_rows) {
  std::vector<RowWindow> windows;
  uint64_t begin = 0;
  for (uint64_t border : borders) {
    if (border == 0 || border >= num_rows) continue;
    windows.push_back({begin, border, false});
    begin = border;
  }
  windows.push_back({begin, num_rows, false});
  return windows;
}

void ExpectFinds(const std::vector<RowWindow>& windows, std::mt19937_64& random,
                 const std::string& what) {
  const WindowIndex index(windows);
  std::vector<uint64_t> rows = {0, windows.back().end - 1};
  for (const RowWindow& window : windows) {
    rows.insert(rows.end(),
                {window.begin, window.end - 1, window.begin + (window.end - window.begin) / 2});
  }
  for (int i = 0; i < 2000; ++i) rows.push_back(random() % windows.back().end);
  for (uint64_t row : rows) {
    const auto after =
        std::upper_bound(windows.begin(), windows.end(), row,
                         [](uint64_t r, const RowWindow& window) { return r < window.begin; });
    ASSERT_EQ(index.Find(row), static_cast<uint32_t>(after - windows.begin() - 1))
        << what << ": row " << row << " of " << windows.size() << " windows";
  }
}

TEST(WindowIndex, FindsTheWindowOfEveryRow) {
  std::mt19937_64 random(1);
  for (uint64_t num_rows : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1} << 20,
                            uint64_t{1} << 60, kNumRowsMax - 1}) {
    for (size_t count : {0u, 1u, 2u, 3u, 16u, 100u, 1024u, 5000u}) {
      std::set<uint64_t> even;
      std::set<uint64_t> uniform;
      std::set<uint64_t> corner;   // all at the start, one far away
      std::set<uint64_t> end;      // all at the end
      std::set<uint64_t> powers;   // about as many in every power of two
      std::set<uint64_t> cluster;  // neighbours in the middle
      for (size_t i = 0; i < count; ++i) {
        even.insert(num_rows / (count + 1) * (i + 1));
        uniform.insert(random() % num_rows);
        corner.insert(random() % 10000);
        end.insert(num_rows - 1 - std::min(num_rows - 1, random() % 10000));
        powers.insert((random() | 1) >> (random() % 63));
        cluster.insert(num_rows / 2 + i);
      }
      corner.insert(num_rows - 1);
      int kind = 0;
      for (const auto& borders : {even, uniform, corner, end, powers, cluster}) {
        ExpectFinds(WindowsOf(borders, num_rows), random,
                    absl::StrCat("kind ", kind++, " count ", count, " rows ", num_rows));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(WindowIndex, OneWindowHasAllRows) {
  const RowWindow all{0, kNumRowsMax - 1, false};
  const WindowIndex index({&all, 1});
  for (uint64_t row : {uint64_t{0}, uint64_t{1}, kNumRowsMax - 2}) EXPECT_EQ(index.Find(row), 0u);
}

// Entries that are read back: row, bits of the value and of the weight, and how many there are.
using Entries = std::map<std::tuple<uint64_t, uint64_t, uint32_t>, int>;

template <class Value>
struct Source {
  std::vector<uint64_t> rows;
  std::vector<Value> values;
  float weight;
};

template <class Value>
std::vector<Source<Value>> MakeSources(size_t count, uint64_t num_rows, bool many_weights) {
  std::mt19937_64 random(count);
  std::vector<Source<Value>> sources(count);
  for (size_t k = 0; k < count; ++k) {
    // The sign bit of a weight must be kept, too.
    sources[k].weight = many_weights ? (k % 3 == 0 ? -1.0f : 1.0f) * static_cast<float>(k) : 2.0f;
    const size_t nnz = k % 5 == 0 ? 0 : 1 + random() % 3000;
    for (size_t i = 0; i < nnz; ++i) {
      sources[k].rows.push_back(random() % num_rows);
      sources[k].values.push_back(static_cast<Value>(random()));
    }
  }
  sources.push_back({{}, {}, 7.0f});
  for (size_t i = 0; i < 70000; ++i) {  // more than a thread takes at a time
    sources.back().rows.push_back(random() % (num_rows / 10));
    sources.back().values.push_back(static_cast<Value>(random()));
  }
  return sources;
}

// Reads the entries of a window's spans, packed or not. `value_bytes` may be 0.
template <class Value>
Entries ReadBack(const Partition& partition, size_t w, uint64_t begin, size_t value_bytes,
                 bool& packed) {
  Entries entries;
  std::vector<EntrySpan> spans;
  partition.Read(w, spans);
  for (const EntrySpan& span : spans) {
    packed |= span.values == nullptr;
    span.ForEachCursor(begin, value_bytes, [&](const Cursor& part) {
      const auto* values = reinterpret_cast<const Value*>(part.value);
      for (size_t i = 0; i < part.size(); ++i) {
        const float weight = part.weights == nullptr ? part.weight : part.weights[i];
        ++entries[{part.row[i], value_bytes == 0 ? 0 : values[i], BitCast<uint32_t>(weight)}];
      }
    });
  }
  return entries;
}

// Also lets the partition write into the memory that it has read.
template <class Value>
void ExpectAllComeBack(ValueType type, size_t value_bytes, uint32_t threads, size_t num_windows,
                       bool many_weights, bool& packed) {
  constexpr uint64_t kNumRows = uint64_t{1} << 40;
  std::vector<Source<Value>> sources = MakeSources<Value>(40, kNumRows, many_weights);
  std::set<uint64_t> borders;
  for (size_t i = 1; i < num_windows; ++i) borders.insert(kNumRows / num_windows * i);
  const std::vector<RowWindow> windows = WindowsOf(borders, kNumRows);
  std::vector<Cursor> cursors;
  std::vector<Entries> expected(windows.size());
  for (Source<Value>& source : sources) {
    cursors.push_back({.row = source.rows.data(),
                       .end = source.rows.data() + source.rows.size(),
                       .value = reinterpret_cast<const std::byte*>(source.values.data()),
                       .weight = source.weight});
    for (size_t i = 0; i < source.rows.size(); ++i) {
      const uint64_t row = source.rows[i];
      const auto after =
          std::upper_bound(windows.begin(), windows.end(), row,
                           [](uint64_t r, const RowWindow& window) { return r < window.begin; });
      const uint64_t value = value_bytes == 0 ? 0 : source.values[i];
      ++expected[static_cast<size_t>(after - windows.begin()) - 1]
                [{row, value, BitCast<uint32_t>(source.weight)}];
    }
  }
  Parallel parallel(threads);
  Partition partition({kNumRows, 1, type}, value_bytes, windows, parallel);
  std::vector<std::atomic<int>> done(cursors.size());
  partition.Distribute(cursors, [&](size_t k) -> std::span<std::byte> {
    ++done[k];
    if (k % 2 == 0) return {};
    return std::as_writable_bytes(std::span(sources[k].rows));
  });
  for (size_t k = 0; k < cursors.size(); ++k) {
    EXPECT_TRUE(done[k] == 1 || cursors[k].size() == 0) << k;
  }
  for (size_t w = 0; w < windows.size(); ++w) {
    const Entries entries = ReadBack<Value>(partition, w, windows[w].begin, value_bytes, packed);
    ASSERT_EQ(entries, expected[w]) << "window " << w << " of " << windows.size();
    uint64_t count = 0;
    for (const auto& [entry, times] : entries) count += static_cast<uint64_t>(times);
    ASSERT_EQ(partition.EntriesOf(w), count);
  }
}

TEST(Partition, EveryEntryComesBackOnceInItsWindowWithItsWeight) {
  for (uint32_t threads : {1u, 2u, 5u}) {
    for (size_t num_windows : {2u, 64u, 256u, 3000u}) {
      for (bool many_weights : {false, true}) {
        SCOPED_TRACE(absl::StrCat(threads, " threads, ", num_windows, " windows, many weights ",
                                  many_weights));
        bool packed = false;
        ExpectAllComeBack<uint32_t>(ValueType::kF32, 4, threads, num_windows, many_weights, packed);
        // Packed words hold rows of at most 2^32, and no weight for each entry.
        EXPECT_EQ(packed, num_windows >= 256 && !many_weights);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Partition, ValuesOfEverySizeComeBack) {
  for (size_t num_windows : {64u, 300u}) {
    bool packed = false;
    ExpectAllComeBack<uint16_t>(ValueType::kBF16, 2, 2, num_windows, false, packed);
    EXPECT_EQ(packed, num_windows == 300);
    packed = false;
    ExpectAllComeBack<uint32_t>(ValueType::kF32, 0, 2, num_windows, false, packed);
    EXPECT_EQ(packed, num_windows == 300);
    packed = false;
    ExpectAllComeBack<uint64_t>(ValueType::kF64, 8, 2, num_windows, false, packed);
    EXPECT_FALSE(packed);
  }
}

// Contributors of weight 0, each with first entries of rows and with further ones (Cursor).
TEST(Partition, ZerosOfBothSignsMakeNoSpanForEachEntry) {
  constexpr uint64_t kWindows = 64;
  constexpr size_t kCursors = 200;
  constexpr size_t kEntries = kCursors * kWindows;
  std::vector<RowWindow> windows;
  std::vector<uint64_t> rows;  // one in each window
  for (uint64_t w = 0; w < kWindows; ++w) {
    windows.push_back({10 * w, 10 * w + 10, false});
    rows.push_back(10 * w + 3);
  }
  const std::vector<float> values(rows.size(), 1.5f);
  std::vector<Cursor> cursors;
  for (size_t k = 0; k < kCursors; ++k) {
    cursors.push_back({.row = rows.data(),
                       .end = rows.data() + rows.size(),
                       .value = reinterpret_cast<const std::byte*>(values.data()),
                       .weight = k % 2 == 0 ? 0.0f : -0.0f});
  }
  Parallel parallel(1);
  Partition partition({10 * kWindows, 1, ValueType::kF32}, sizeof(float), windows, parallel);
  partition.Distribute(cursors, [](size_t) -> std::span<std::byte> { return {}; });
  size_t num_spans = 0;
  size_t signs = 0;
  for (size_t w = 0; w < kWindows; ++w) {
    ASSERT_EQ(partition.EntriesOf(w), kCursors);
    std::vector<EntrySpan> spans;
    partition.Read(w, spans);
    num_spans += spans.size();
    for (const EntrySpan& span : spans) {
      for (size_t i = 0; i < span.size; ++i) {
        const float weight = span.weights == nullptr ? span.weight : span.weights[i];
        signs += std::signbit(weight) ? 1 : 0;
      }
    }
  }
  EXPECT_LT(num_spans, kEntries / 8);
  EXPECT_EQ(signs, kEntries / 2);
}

TEST(Partition, RowsOfSeveralValuesComeBackAsReferences) {
  constexpr uint64_t kNumRows = 1000;
  constexpr uint32_t kWidth = 3;
  const std::vector<RowWindow> windows = {{0, 10, false}, {10, 600, false}, {600, 1000, false}};
  std::mt19937_64 random(2);
  std::vector<uint64_t> rows(5000);
  for (uint64_t& row : rows) row = random() % kNumRows;
  const std::vector<float> values(rows.size() * kWidth);
  const Cursor cursor{.row = rows.data(),
                      .end = rows.data() + rows.size(),
                      .value = reinterpret_cast<const std::byte*>(values.data()),
                      .weight = -3.0f};
  Parallel parallel(2);
  Partition partition({kNumRows, kWidth, ValueType::kF32}, sizeof(float), windows, parallel);
  partition.Distribute({&cursor, 1}, [](size_t) -> std::span<std::byte> { return {}; });
  std::vector<bool> seen(rows.size());
  for (size_t w = 0; w < windows.size(); ++w) {
    std::vector<RefSpan> spans;
    partition.Read(w, spans);
    for (const RefSpan& span : spans) {
      for (size_t i = 0; i < span.size; ++i) {
        const auto entry = static_cast<size_t>(
            (reinterpret_cast<const float*>(span.refs[i].values) - values.data()) / kWidth);
        ASSERT_LT(entry, rows.size());
        EXPECT_FALSE(seen[entry]);
        seen[entry] = true;
        EXPECT_EQ(span.rows[i], rows[entry]);
        EXPECT_GE(span.rows[i], windows[w].begin);
        EXPECT_LT(span.rows[i], windows[w].end);
        EXPECT_EQ(span.refs[i].row_cell, nullptr);
        EXPECT_EQ(span.refs[i].weight, -3.0f);
      }
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
}

}  // namespace
}  // namespace sparseagg
