#include "sparse/encodings/coo_packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "sparse/encodings/packed_block.h"
#include "sparse/rows/packed_indices.h"
#include "sparse/validate.h"
#include "tests/sparse/encoded.h"

namespace sparseagg {
namespace {

using testing::AscendingRows;
using testing::Decode;
using testing::Decoded;
using ::testing::ElementsAre;
using testing::Encoded;
using testing::EntryOf;
using ::testing::HasSubstr;
using testing::Pack;
using testing::SetEntry;
using testing::SpecOf;
using testing::TryEncode;

void ExpectError(const absl::Status& status, const std::string& reason, const std::string& part) {
  EXPECT_EQ(ErrorReason(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"emb\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

// The example of docs/wire_format.md.
TEST(CooPackedTest, PacksTheWorkedExampleIntoTheDocumentedBytes) {
  const TensorSpec spec = SpecOf({20}, 1);
  const Encoded encoded = TryEncode(spec, {3, 4, 7, 15}, std::vector<float>{1, -0.5f, 2, 0.25f},
                                    {.encoding = "coo.packed", .values = "bf16"})
                              .value();
  EXPECT_EQ(absl::BytesToHexString(encoded.indices),
            "0300000000000000"
            "00000000"
            "03be766f"
            "d0010000");
  EXPECT_EQ(absl::BytesToHexString(encoded.values),
            "803f"
            "00bf"
            "0040"
            "803e");
  const Decoded decoded = Decode(encoded, spec);
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  EXPECT_THAT(decoded.rows, ElementsAre(3, 4, 7, 15));
  EXPECT_THAT(decoded.ValuesAs<float>(), ElementsAre(1, -0.5f, 2, 0.25f));
}

TEST(CooPackedTest, ADenseRunNeedsNoWordsAndAHalfFullOneABitmap) {
  const TensorSpec spec = SpecOf({4096}, 1);
  std::vector<uint64_t> rows(256);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = 7 + i;
  EXPECT_EQ(Pack(spec, rows).indices.size(), sizeof(BlockEntry));
  rows = testing::RowsOfDensity(256, 0.5, 1);
  const Encoded half = Pack(spec, rows);
  EXPECT_EQ(EntryOf(half, 0).form(), kBitmapForm);
  EXPECT_EQ(Decode(half, spec).rows, rows);
  rows[9] = rows[10];  // a bitmap cannot say that
  const Encoded repeated = Pack(spec, rows);
  EXPECT_GE(EntryOf(repeated, 0).form(), kRepeatsForm);
  EXPECT_LT(EntryOf(repeated, 0).form(), kBitmapForm);
  EXPECT_EQ(Decode(repeated, spec).rows, rows);
}

TEST(CooPackedTest, HoldsEveryWidthOfDifferences) {
  for (uint32_t width = 1; width <= 63; ++width) {
    for (const uint64_t repeats : {0, 1}) {
      const uint64_t wide = (uint64_t{1} << (width - 1)) + (width == 63 ? -4 : 0);
      std::vector<uint64_t> rows = {0, 1, wide + 2};
      if (repeats != 0) rows.push_back(wide + 2);
      const TensorSpec spec = SpecOf({INT64_MAX}, 1);
      const Decoded decoded = Decode(Pack(spec, rows), spec);
      ASSERT_TRUE(decoded.status.ok()) << decoded.status;
      EXPECT_EQ(decoded.rows, rows) << width;
    }
  }
}

// Blocks have any length: the unpacker takes eight differences at a time and then single ones.
TEST(CooPackedTest, UnpacksBlocksOfEveryWidthAndLength) {
  std::mt19937_64 random(1);
  for (uint32_t width = 1; width <= 54; ++width) {
    for (const uint32_t form : {width, kRepeatsForm + width}) {
      const uint64_t step = form < kRepeatsForm ? 1 : 0;
      for (uint32_t count = 1; count <= kBlockEntries; count += count < 20 ? 1 : 59) {
        std::vector<uint64_t> rows = {random() >> 2};
        while (rows.size() < count) {
          const uint64_t most = (uint64_t{1} << width) - 1;
          rows.push_back(rows.back() + (random() % 4 == 0 ? most : random() & most) + step);
        }
        std::vector<uint32_t> words(PackedWords(count, width) + kBlockSlackBytes / 4, 0xFFFFFFFFu);
        PackBlock(rows.data(), count, {form, PackedWords(count, width)}, words.data());
        std::vector<uint64_t> unpacked(count + 1, 42);
        EXPECT_EQ(UnpackBlock(rows[0], form, reinterpret_cast<const char*>(words.data()),
                              PackedWords(count, width), count, unpacked.data()),
                  nullptr);
        EXPECT_EQ(unpacked.back(), 42) << "beyond the block";
        unpacked.pop_back();
        ASSERT_EQ(unpacked, rows) << "form " << form << ", " << count << " entries";
      }
    }
  }
}

TEST(CooPackedTest, RefusesRowsInDescendingOrder) {
  const TensorSpec spec = SpecOf({20}, 1);
  const std::vector<uint64_t> rows = {4, 3};
  const std::vector<float> values = {1, 2};
  EncodedHeader header = testing::HeaderOf(spec);
  std::string indices;
  std::string encoded;
  ExpectError(
      EncodeCooPacked({*MakeLayout(spec), 2, rows.data(), values.data()}, header, indices, encoded),
      "UNSORTED_ENTRIES", "ascending");
}

TEST(CooPackedTest, NamesTheBlockWhoseBytesWereDamaged) {
  const TensorSpec spec = SpecOf({1 << 20}, 1);
  Encoded encoded = Pack(spec, AscendingRows(700, 500, 0, 3));
  encoded.indices[3 * sizeof(BlockEntry) + 4 * EntryOf(encoded, 1).begin] ^= 4;
  const absl::Status status = Decode(encoded, spec).status;
  ExpectError(status, "CHECKSUM_MISMATCH", "block 1 of 3");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

TEST(CooPackedTest, RefusesBlocksThatOverlapLeaveGapsOrEndAtTheWrongWord) {
  const TensorSpec spec = SpecOf({1 << 20}, 1);
  const Encoded good = Pack(spec, AscendingRows(700, 500, 0, 4));
  const uint32_t words = EntryOf(good, 1).begin;
  for (const uint32_t begin : {0u, words - 1, words + 1, uint32_t{UINT32_MAX}}) {
    Encoded bad = good;
    BlockEntry entry = EntryOf(good, 1);
    entry.begin = begin;
    std::memcpy(bad.indices.data() + sizeof(entry), &entry, sizeof(entry));
    ExpectError(Decode(bad, spec).status, "MALFORMED_BLOCK", "block 0 of 3");
  }
  Encoded late = good;
  BlockEntry entry = EntryOf(good, 0);
  entry.begin = 1;
  std::memcpy(late.indices.data(), &entry, sizeof(entry));
  ExpectError(Decode(late, spec).status, "MALFORMED_BLOCK", "begins at word 1, expected 0");
  Encoded longer = good;
  longer.indices.append(4, '\0');
  ExpectError(Decode(longer, spec).status, "MALFORMED_BLOCK", "block 2 of 3");
}

TEST(CooPackedTest, RefusesFormsThatDoNotExistOrDoNotFitTheWords) {
  const TensorSpec spec = SpecOf({1 << 20}, 1);
  const Encoded good = Pack(spec, AscendingRows(256, 500, 0, 5));
  const uint32_t words = static_cast<uint32_t>((good.indices.size() - sizeof(BlockEntry)) / 4);
  for (const uint32_t form : {0u, 8u, 10u, 63u, 64u, 127u, 128u, 129u, 255u}) {
    Encoded bad = good;
    BlockEntry entry = EntryOf(good, 0);
    entry.tag = form;
    SetEntry(bad, 0, entry, words);
    ExpectError(Decode(bad, spec).status, "MALFORMED_BLOCK", "block 0 of 1");
  }
}

TEST(CooPackedTest, RefusesBitmapsWithOtherNumbersOfBits) {
  const TensorSpec spec = SpecOf({1 << 20}, 1);
  const Encoded good = Pack(spec, testing::RowsOfDensity(256, 0.5, 6));
  ASSERT_EQ(EntryOf(good, 0).form(), kBitmapForm);
  const uint32_t words = static_cast<uint32_t>((good.indices.size() - sizeof(BlockEntry)) / 4);
  Encoded fewer = good;
  fewer.indices[sizeof(BlockEntry)] &= ~1;
  SetEntry(fewer, 0, EntryOf(fewer, 0), words);
  ExpectError(Decode(fewer, spec).status, "MALFORMED_BLOCK",
              "the number of bits set in its bitmap");
  Encoded padded = good;
  padded.indices.append(4, '\0');
  SetEntry(padded, 0, EntryOf(padded, 0), words + 1);
  ExpectError(Decode(padded, spec).status, "MALFORMED_BLOCK", "must begin with a set bit and end");
}

TEST(CooPackedTest, NamesTheEntryOfARowOutOfRange) {
  const std::vector<uint64_t> rows = {3, 812, 813};
  const Encoded encoded = Pack(SpecOf({1000}, 1), rows);
  Encoded smaller = encoded;
  smaller.header.dense_shape = {800};
  ExpectError(Decode(smaller, SpecOf({800}, 1)).status, "INDEX_OUT_OF_RANGE",
              "row 812 at entry 1 is not below 800 rows");
}

TEST(CooPackedTest, RefusesRowsThatWrapAroundOrGoBack) {
  const TensorSpec spec = SpecOf({INT64_MAX}, 1);
  Encoded wraps = Pack(spec, {0, uint64_t{1} << 62, (uint64_t{1} << 62) + 1});
  BlockEntry entry = EntryOf(wraps, 0);
  ASSERT_EQ(entry.form(), 62u);
  entry.first = INT64_MAX - 1;
  SetEntry(wraps, 0, entry, PackedWords(3, 62));
  ExpectError(Decode(wraps, spec).status, "MALFORMED_BLOCK", "beyond 2^63");

  Encoded back = Pack(spec, AscendingRows(300, 500, 0, 7));
  BlockEntry second = EntryOf(back, 1);
  second.first = 0;
  SetEntry(back, 1, second, PackedWords(44, second.form()));
  ExpectError(Decode(back, spec).status, "MALFORMED_BLOCK", "block 1 of 2: it begins below");
}

// Unsigned rows may wrap around, so that the last one is in range again: 2^64 - 2, 2^64 - 1, 0.
TEST(CooPackedTest, RefusesBlocksThatBeginBeyondTheRowsAndEndInRange) {
  const TensorSpec spec = SpecOf({1 << 20}, 1);
  for (const auto& [form, words] : std::vector<std::pair<uint32_t, std::vector<uint32_t>>>{
           {0, {}},                  // the next row, twice
           {1, {0}},                 // the same, a bit for each
           {kRepeatsForm + 1, {3}},  // 0 is the same row: 1, twice
           {kBitmapForm, {7}},       // three bits
           {62, {0, 0, 0, 0}},       // wide differences
       }) {
    SCOPED_TRACE(form);
    Encoded wraps = Pack(spec, {0, 1, 2});
    wraps.indices.resize(sizeof(BlockEntry) + 4 * words.size());
    if (!words.empty()) {
      std::memcpy(wraps.indices.data() + sizeof(BlockEntry), words.data(), 4 * words.size());
    }
    wraps.header.indices_bytes = wraps.indices.size();
    BlockEntry entry = EntryOf(wraps, 0);
    entry.first = ~uint64_t{0} - 1;
    entry.tag = form;
    SetEntry(wraps, 0, entry, static_cast<uint32_t>(words.size()));
    ExpectError(Decode(wraps, spec).status, "INDEX_OUT_OF_RANGE",
                "row 18446744073709551614 at entry 0 is not below 1048576 rows");
  }
}

TEST(CooPackedTest, RefusesSizesThatDoNotAgreeBeforeReadingAnything) {
  const TensorSpec spec = SpecOf({1 << 20}, 1);
  const Encoded good = Pack(spec, AscendingRows(300, 500, 0, 8));
  const auto inspect = [&](auto change) {
    EncodedHeader header = good.header;
    change(header);
    return InspectTensor(header, spec);
  };
  ASSERT_TRUE(inspect([](EncodedHeader&) {}).ok());
  ExpectError(inspect([](EncodedHeader& h) { h.indices_bytes = 31; }), "SIZE_MISMATCH", "32");
  ExpectError(inspect([](EncodedHeader& h) { ++h.indices_bytes; }), "SIZE_MISMATCH", "indices");
  ExpectError(inspect([](EncodedHeader& h) { h.indices_bytes = uint64_t{1} << 40; }),
              "SIZE_MISMATCH", "indices");
  // Two blocks, with the largest number of words and with one more.
  constexpr uint64_t kMost = 2 * (sizeof(BlockEntry) + 4 * kBlockWordsMax);
  EXPECT_TRUE(inspect([](EncodedHeader& h) { h.indices_bytes = kMost; }).ok());
  ExpectError(inspect([](EncodedHeader& h) { h.indices_bytes = kMost + 4; }), "SIZE_MISMATCH",
              "a multiple of 4 from 32 to 4056 bytes of indices, the update has 4060");
  ExpectError(inspect([](EncodedHeader& h) { h.nnz = 301; }), "SIZE_MISMATCH", "1204 bytes");
  ExpectError(inspect([](EncodedHeader& h) { h.nnz = ~uint64_t{0}; }), "SIZE_MISMATCH",
              "over 2^64");
  ExpectError(inspect([](EncodedHeader& h) { h.values_encoding = "int9"; }),
              "UNKNOWN_VALUES_ENCODING", "int8");
  ExpectError(inspect([](EncodedHeader& h) { h.nnz = h.values_bytes = 0; }), "SIZE_MISMATCH",
              "needs 0");
}

TEST(CooPackedTest, ADenseTensorHasOneEntryAndNoIndices) {
  const TensorSpec spec = SpecOf({2, 2}, 0);
  const std::vector<float> values = {1, 2, 3, 4};
  const Encoded encoded =
      TryEncode(spec, {0}, values, {.encoding = "coo.packed", .values = "bf16"}).value();
  EXPECT_EQ(encoded.indices.size(), 0u);
  EXPECT_EQ(encoded.values.size(), 8u);
  const Decoded decoded = Decode(encoded, spec);
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  EXPECT_THAT(decoded.rows, ElementsAre(0));
  EXPECT_EQ(decoded.ValuesAs<float>(), values);
}

// Bytes cut anywhere, truncated, or with any byte flipped give a Status, or entries in range.
TEST(CooPackedTest, AnyCutOfTheBytesDecodesAndNoDamageGoesOutOfRange) {
  const TensorSpec spec = SpecOf({2000}, 1);
  std::vector<uint64_t> rows = AscendingRows(256, 6, 0.1, 9);
  for (const uint64_t row : testing::RowsOfDensity(256, 0.5, 10))
    rows.push_back(rows[255] + 1 + row);
  const Encoded good = TryEncode(spec, rows, std::vector<float>(rows.size(), 0.1f),
                                 {.encoding = "coo.packed", .values = "int4"})
                           .value();
  for (const size_t piece : {1, 3, 5, 64, 1000}) EXPECT_EQ(Decode(good, spec, piece).rows, rows);
  for (size_t bytes = 0; bytes < good.indices.size(); ++bytes) {
    Encoded cut = good;
    cut.indices.resize(bytes);
    EXPECT_FALSE(Decode(cut, spec).status.ok()) << bytes;
  }
  for (size_t at = 0; at < good.indices.size() + good.values.size(); ++at) {
    for (const char bits : {1, -128, -1}) {
      Encoded bad = good;
      const bool in_indices = at < good.indices.size();
      (in_indices ? bad.indices[at] : bad.values[at - good.indices.size()]) ^= bits;
      const Decoded decoded = Decode(bad, spec, 77);
      EXPECT_FALSE(in_indices && decoded.status.ok()) << at;
      if (decoded.status.ok()) {
        EXPECT_EQ(decoded.rows, rows);
      }
    }
  }
}

// Random blocks with a correct check reach the code behind it.
TEST(CooPackedTest, RandomBlocksWithARightCheckStayInRange) {
  std::mt19937_64 random(11);
  const TensorSpec spec = SpecOf({1 << 30}, 1);
  int accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const uint32_t count = 1 + static_cast<uint32_t>(random() % kBlockEntries);
    const uint32_t form = static_cast<uint32_t>(random() % 130);
    const uint32_t words = form >= kBitmapForm ? static_cast<uint32_t>(random() % 600)
                                               : PackedWords(count, form % kRepeatsForm);
    Encoded encoded{testing::HeaderOf(spec), std::string(sizeof(BlockEntry) + 4 * words, '\0'),
                    std::string(4 * count, '\0')};
    encoded.header.encoding = "coo.packed";
    encoded.header.nnz = count;
    const uint64_t mask = random() % 2 == 0 ? ~uint64_t{0} : 0x0101010101010101;
    for (uint32_t w = 0; w < words; ++w) {
      const auto word = static_cast<uint32_t>(random() & mask);
      std::memcpy(encoded.indices.data() + sizeof(BlockEntry) + 4 * w, &word, 4);
    }
    SetEntry(encoded, 0, {random() >> (random() % 64), 0, form}, std::min(words, kBlockWordsMax));
    const Decoded decoded = Decode(encoded, spec);
    if (!decoded.status.ok()) continue;
    ++accepted;
    EXPECT_NE(OrderOf(decoded.rows.data(), count), EntryOrder::kUnsorted);
    EXPECT_LT(decoded.rows.back(), uint64_t{1} << 30);
  }
  EXPECT_GT(accepted, 500) << "too few random blocks are accepted";
}

TEST(PackedIndicesTest, GivesTheSameBytesPieceByPiece) {
  for (const uint64_t count : {0, 1, 255, 256, 257, 3000}) {
    for (const uint64_t gap : {1, 2, 1000}) {
      const std::vector<uint64_t> rows = AscendingRows(count, gap, 0, count + gap);
      std::string whole;
      AppendPackedIndices(rows.data(), rows.size(), whole);
      // Rows without a gap are the first ones; they are not stored either.
      const RowIds ids =
          gap == 1 ? RowIds::Every(count) : RowIds(HostVector<uint64_t>(rows.begin(), rows.end()));
      const PackedIndices packed{ids};
      ASSERT_TRUE(packed.fits());
      ASSERT_EQ(packed.bytes(), whole.size());
      for (const size_t piece : {1, 7, 16, 333, 1 << 20}) {
        std::string pieces(whole.size(), '\0');
        for (size_t at = 0; at < whole.size(); at += piece) {
          packed.Read(at, std::min(piece, whole.size() - at), pieces.data() + at);
        }
        EXPECT_EQ(pieces, whole) << count << " " << gap << " " << piece;
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg
