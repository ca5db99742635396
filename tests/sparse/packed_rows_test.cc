#include "sparse/rows/packed_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/validate.h"
#include "tests/sparse/encoded.h"

namespace sparseagg {
namespace {

// Returns rows with blocks of every form: without gaps, one-bit differences, bitmaps, wider
// differences, repeated rows, and rows far apart.
std::vector<uint64_t> RowsOfEveryForm() {
  std::mt19937_64 random(5);
  std::vector<uint64_t> rows;
  uint64_t row = 17;
  const auto block = [&](auto difference) {
    for (uint32_t i = 0; i < kBlockEntries; ++i) {
      rows.push_back(row);
      row += difference();
    }
  };
  block([] { return uint64_t{1}; });
  block([&] { return 1 + (random() % 6 == 0 ? uint64_t{1} : 0); });
  block([&] { return 1 + static_cast<uint64_t>(std::countr_zero(random() | 1 << 20)); });
  block([&] { return 1 + random() % 900; });
  block([&] { return random() % 2; });
  block([] { return uint64_t{0}; });
  block([&] { return 1 + random() % (uint64_t{1} << 40); });
  block([&] { return 1 + (random() % 6 == 0 ? uint64_t{1} : 0); });
  rows.resize(rows.size() - 100);  // the last one is not full
  return rows;
}

class PackedRowsTest : public ::testing::Test {
 protected:
  PackedRowsTest() {
    AppendPackedIndices(rows_.data(), rows_.size(), bytes_);
    bytes_.append(kBlockSlackBytes, '\0');
  }
  CooView View() const {
    return {
        .nnz = rows_.size(),
        .rows = RowView(std::span<const char>(bytes_.data(), bytes_.size() - kBlockSlackBytes))};
  }
  const std::vector<uint64_t> rows_ = RowsOfEveryForm();
  std::string bytes_;
};

TEST_F(PackedRowsTest, GivesTheRowsThatWerePacked) {
  const PackedRows packed(View());
  std::vector<uint64_t> rows(rows_.size());
  packed.UnpackAll(rows.data());
  EXPECT_EQ(rows, rows_);
  for (const uint64_t entry : {uint64_t{0}, uint64_t{255}, uint64_t{256}, rows_.size() - 1}) {
    EXPECT_EQ(packed.RowOf(entry), rows_[entry]);
    EXPECT_EQ(RowOf(View(), entry), rows_[entry]);
  }
}

TEST_F(PackedRowsTest, CrowdedBlocksAreBitmaps) {
  const PackedRows packed(View());
  std::vector<bool> as_bits;
  for (uint64_t b = 0; b < packed.blocks(); ++b) {
    const PackedRows::Block block = packed.block(b);
    PackedRows::BitsBuffer buffer;
    const auto bits = PackedRows::BitsOf(block, buffer);
    as_bits.push_back(bits.has_value());
    if (!bits.has_value()) continue;
    std::vector<uint64_t> rows;
    for (uint64_t k = 0; k <= bits->last - bits->first; ++k) {
      if ((bits->bytes[k / 8] >> (k % 8) & 1) != 0) rows.push_back(bits->first + k);
    }
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(block.begin);
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), begin, begin + block.count)) << "block " << b;
  }
  EXPECT_EQ(as_bits, (std::vector<bool>{true, true, true, false, false, false, false, true}));
}

// Returns the rows of the bitmap to which a block of these rows is converted; none if it is not
// converted.
std::vector<uint64_t> RowsOfBits(const std::vector<uint64_t>& rows) {
  std::string bytes;
  AppendPackedIndices(rows.data(), rows.size(), bytes);
  const CooView view{.nnz = rows.size(),
                     .rows = RowView(std::span<const char>(bytes.data(), bytes.size()))};
  PackedRows::BitsBuffer buffer;
  const auto bits = PackedRows::BitsOf(PackedRows(view).block(0), buffer);
  std::vector<uint64_t> found;
  if (!bits.has_value()) return found;
  EXPECT_EQ(bits->count, rows.size());
  for (uint64_t row = bits->first; row <= bits->last; ++row) {
    const uint64_t bit = row - bits->first;
    if (bits->bytes[bit / 8] >> bit % 8 & 1) found.push_back(row);
  }
  return found;
}

TEST(PackedRowsGapsTest, ABlockWithAnyNumberOfGapsOfOneRowIsABitmap) {
  std::mt19937_64 random(6);
  for (const uint32_t count : {2u, 31u, 32u, 33u, 34u, 65u, 200u, 255u, kBlockEntries}) {
    for (uint32_t gaps = 0; gaps < count; ++gaps) {
      std::vector<bool> has_gap(count - 1);
      std::fill_n(has_gap.begin(), gaps, true);
      std::shuffle(has_gap.begin(), has_gap.end(), random);
      std::vector<uint64_t> rows = {random() % 1000};
      for (const bool gap : has_gap) rows.push_back(rows.back() + (gap ? 2 : 1));
      EXPECT_EQ(RowsOfBits(rows), rows) << count << " rows, " << gaps << " gaps";
    }
  }
}

TEST(PackedRowsShortTest, AFullBlockOfAnySizeHasAllBitsUpToItsEnd) {
  for (uint32_t count = 1; count <= kBlockEntries; ++count) {
    PackedRows::BitsBuffer buffer;
    const auto bits = PackedRows::BitsOf({.first = 9, .form = 0, .count = count}, buffer);
    ASSERT_TRUE(bits.has_value());
    EXPECT_EQ(bits->first, 9u);
    EXPECT_EQ(bits->last, 9 + count - 1);
    EXPECT_EQ(bits->count, count);
    for (uint32_t k = 0; k < count; ++k) EXPECT_NE(bits->bytes[k / 8] >> (k % 8) & 1, 0);
  }
}

TEST_F(PackedRowsTest, FindsWhereARowCanBegin) {
  const PackedRows packed(View());
  std::vector<uint64_t> rows(kBlockEntries);
  std::vector<uint64_t> wanted = {0, rows_.back() + 1};
  for (size_t i = 0; i < rows_.size(); i += 7) wanted.push_back(rows_[i]);
  for (const uint64_t row : wanted) {
    const auto first = std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin();
    const uint64_t block = packed.LowerBound(row);
    EXPECT_LE(block * kBlockEntries, static_cast<uint64_t>(first)) << row;
    ASSERT_LT(block, packed.blocks());
    // It is no earlier than needed: the next block begins at the row or beyond.
    if (block + 1 < packed.blocks()) {
      EXPECT_GE(packed.block(block + 1).first, row);
    }
  }
}

TEST_F(PackedRowsTest, InspectingABlockAgreesWithItsRows) {
  const PackedRows packed(View());
  for (uint64_t b = 0; b < packed.blocks(); ++b) {
    const PackedRows::Block block = packed.block(b);
    BlockRows found;
    ASSERT_EQ(
        InspectBlock(block.first, block.form, block.words, block.num_words, block.count, found),
        nullptr);
    const uint64_t* rows = rows_.data() + block.begin;
    EXPECT_EQ(found.last, rows[block.count - 1]) << "block " << b;
    EXPECT_EQ(found.distinct, OrderOf(rows, block.count) == EntryOrder::kCanonical);
  }
}

TEST_F(PackedRowsTest, ABitmapThatCountsWrongIsRefusedWithoutUnpackingIt) {
  const uint32_t words[2] = {5, 0};
  BlockRows found;
  const auto* bytes = reinterpret_cast<const char*>(words);
  EXPECT_NE(InspectBlock(0, kBitmapForm, bytes, 1, 3, found), nullptr);
  EXPECT_NE(InspectBlock(0, kBitmapForm, bytes, 2, 2, found), nullptr);
  EXPECT_EQ(InspectBlock(0, kBitmapForm, bytes, 1, 2, found), nullptr);
  EXPECT_EQ(found.last, 2u);
}

// The error of a non-finite value names its row, although the rows are packed.
TEST(PackedRowsErrorTest, AWrongValueIsNamedByItsRow) {
  const TensorSpec tensor = testing::SpecOf({5000}, 1);
  const std::vector<uint64_t> rows = testing::RowsOfDensity(5000, 0.5, 3);
  std::string packed;
  AppendPackedIndices(rows.data(), rows.size(), packed);
  packed.append(kBlockSlackBytes, '\0');
  std::vector<float> values(rows.size(), 1.0f);
  values[700] = std::numeric_limits<float>::infinity();
  const ReduceSpec spec = MakeReduceSpec(tensor).value();
  const CooView entries = {
      .layout = spec.layout,
      .nnz = rows.size(),
      .rows = RowView(std::span<const char>(packed.data(), packed.size() - kBlockSlackBytes)),
      .values = values.data()};
  UpdateValidator validator(spec, entries, 1.0f);
  validator.SetKnownOrder(EntryOrder::kCanonical);
  const auto order = validator.Finish();
  EXPECT_EQ(ErrorReason(order.status()), "NON_FINITE_VALUE");
  EXPECT_NE(order.status().message().find("entry 700 (row " + std::to_string(rows[700]) + ")"),
            std::string::npos)
      << order.status();
}

}  // namespace
}  // namespace sparseagg
