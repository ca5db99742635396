// Rows that stay packed are validated with the same outcome as rows that are decoded. Crowded
// blocks have a check of their own, which is tested here with every kind of error.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/encodings/packed_block.h"
#include "sparse/validate.h"
#include "tests/sparse/encoded.h"

namespace sparseagg::testing {
namespace {

class CrowdedBlocksTest : public ::testing::Test {
 protected:
  static constexpr size_t kFull = 2;  // the block without gaps
  CrowdedBlocksTest() : rows_(RowsOfDensity(4 * kBlockEntries + 40, 0.97, 12)) {
    const auto full = rows_.begin() + kFull * kBlockEntries;
    for (auto at = full + 1; at < full + kBlockEntries; ++at) *at = at[-1] + 1;
    for (auto at = full + kBlockEntries; at < rows_.end(); ++at) *at += kBlockEntries;
    good_ = Pack(spec_, rows_);
  }

  void ExpectTheSame(const Encoded& encoded, const TensorSpec& spec, const std::string& what) {
    const Decoded decoded = Decode(encoded, spec);
    std::string bytes(encoded.indices.size() + kBlockSlackBytes, '\0');
    std::vector<float> values(encoded.header.nnz);
    const Encoding* const packed = *FindEncoding("coo.packed");
    const auto decoder =
        packed->decoder(encoded.header, spec,
                        {.layout = *MakeLayout(spec),
                         .nnz = encoded.header.nnz,
                         .rows = RowStorage(std::span(bytes.data(), encoded.indices.size())),
                         .values = values.data()});
    const absl::Status status = decoder->AppendIndices(encoded.indices);
    EXPECT_EQ(status, decoded.status) << what;
    refused_ += status.ok() ? 0 : 1;
    if (!status.ok()) return;
    EXPECT_EQ(decoder->order(), OrderOf(decoded.rows.data(), decoded.rows.size())) << what;
  }
  // Replaces the entry of a block by `entry`, with a correct check.
  void ExpectTheSameWith(size_t block, const BlockEntry& entry, const std::string& what) {
    Encoded encoded = good_;
    SetEntry(encoded, block, entry, EntryOf(good_, block + 1).begin - EntryOf(good_, block).begin);
    ExpectTheSame(encoded, spec_, absl::StrCat("block ", block, ": ", what));
  }

  const TensorSpec spec_ = SpecOf({5000}, 1);
  std::vector<uint64_t> rows_;
  Encoded good_;
  int refused_ = 0;
};

TEST_F(CrowdedBlocksTest, AreValidatedAlikeWithDamageAnywhere) {
  ASSERT_EQ(EntryOf(good_, 0).form(), kBitmapForm);
  ASSERT_EQ(EntryOf(good_, kFull).form(), 0u);
  ExpectTheSame(good_, spec_, "undamaged");
  EXPECT_EQ(refused_, 0);
  for (size_t at = 0; at < good_.indices.size(); ++at) {
    Encoded bad = good_;
    bad.indices[at] ^= static_cast<char>(1 << at % 8);
    ExpectTheSame(bad, spec_, absl::StrCat("byte ", at));
  }
  EXPECT_EQ(refused_, static_cast<int>(good_.indices.size()));
}

TEST_F(CrowdedBlocksTest, AreValidatedAlikeWithACorrectCheck) {
  for (size_t block = 0; block < 4; ++block) {
    const BlockEntry entry = EntryOf(good_, block);
    const size_t words = 5 * sizeof(entry) + 4 * size_t{entry.begin};
    const size_t words_end = 5 * sizeof(entry) + 4 * size_t{EntryOf(good_, block + 1).begin};
    for (size_t at = words; at < words_end; ++at) {
      Encoded bad = good_;
      bad.indices[at] ^= 1;
      SetEntry(bad, block, entry, static_cast<uint32_t>(words_end - words) / 4);
      ExpectTheSame(bad, spec_, absl::StrCat("byte ", at));
    }
    for (const uint64_t first : {uint64_t{0}, entry.first - 1, entry.first + 1, entry.first - 300,
                                 uint64_t{4999}, uint64_t{5000}, ~uint64_t{0} - 255}) {
      ExpectTheSameWith(block, {first, entry.begin, entry.tag}, absl::StrCat("first ", first));
    }
    for (const uint32_t begin : {entry.begin - 1, entry.begin + 1, 0u, ~0u}) {
      Encoded bad = good_;
      const BlockEntry elsewhere = {entry.first, begin, entry.tag};  // no part of the check
      std::memcpy(bad.indices.data() + block * sizeof(entry), &elsewhere, sizeof(elsewhere));
      ExpectTheSame(bad, spec_, absl::StrCat("block ", block, ": begin ", begin));
    }
    for (const uint32_t form : {0u, 1u, kRepeatsForm, kBitmapForm, kBitmapForm + 1}) {
      ExpectTheSameWith(block, {entry.first, entry.begin, form}, absl::StrCat("form ", form));
    }
  }
  EXPECT_GT(refused_, 100);
}

TEST_F(CrowdedBlocksTest, AreValidatedAlikeAgainstTheShape) {
  const auto expect_the_same = [&](uint64_t num_rows) {
    Encoded encoded = good_;
    encoded.header.dense_shape = {static_cast<int64_t>(num_rows)};
    ExpectTheSame(encoded, SpecOf(encoded.header.dense_shape, 1), absl::StrCat(num_rows, " rows"));
  };
  for (const size_t entry : {1, 255, 256, 3 * 256 - 1, 3 * 256, 4 * 256, 4 * 256 + 39}) {
    expect_the_same(rows_[entry]);
  }
  EXPECT_EQ(refused_, 7);
  expect_the_same(rows_.back() + 1);
  EXPECT_EQ(refused_, 7);
}

TEST_F(CrowdedBlocksTest, MayBeginWhereThePreviousOneEnds) {
  const uint64_t step = rows_[kBlockEntries] - rows_[kBlockEntries - 1];
  for (auto at = rows_.begin() + kBlockEntries; at < rows_.end(); ++at) *at -= step;
  good_ = Pack(spec_, rows_);
  ASSERT_EQ(EntryOf(good_, 1).form(), kBitmapForm);
  ExpectTheSame(good_, spec_, "a row twice");
  EXPECT_EQ(refused_, 0);
}

}  // namespace
}  // namespace sparseagg::testing
