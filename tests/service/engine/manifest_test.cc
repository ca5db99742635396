// The digests, computed a second time from their description, and what they depend on.
#include "service/engine/result/manifest.h"

#include <algorithm>
#include <set>

#include "service/engine/ingest/update.h"
#include "service/store/checksums/array_sum.h"
#include "service/store/checksums/digest.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::Sparse;
using testing::TestUpdate;

std::string U32(uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }
std::string U64(uint64_t value) { return {reinterpret_cast<const char*>(&value), 8}; }
std::string Text(const std::string& text) { return U64(text.size()) + text; }
std::string Hash(const std::string& bytes) { return Sha256().Bytes(bytes).Finish(); }

UpdateRecord Record(const std::string& contributor, float weight) {
  return {.contributor = contributor,
          .update_id = "u-" + contributor,
          .weight = weight,
          .digest = Hash(contributor)};
}

TEST(ManifestTest, DescribesASetWhateverItsOrder) {
  std::vector<UpdateRecord> records = {Record("a", 1e8f), Record("b", 1e-8f), Record("c", 3.0f)};
  const Manifest expected = DescribeResult(records, PublishedResult{});
  EXPECT_EQ(expected.contributors, 3u);
  while (std::next_permutation(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.contributor < b.contributor;
  })) {
    const Manifest manifest = DescribeResult(records, PublishedResult{});
    EXPECT_EQ(manifest.updates_digest, expected.updates_digest);
    EXPECT_EQ(manifest.total_weight, expected.total_weight);
  }
}

TEST(ManifestTest, RoundsTheExactSumOfWeightsOnce) {
  // 2^53 + 1 + 1: adding one after the other in f64 would lose both ones.
  const std::vector<UpdateRecord> records = {Record("a", 0x1p53f), Record("b", 1), Record("c", 1)};
  EXPECT_EQ(DescribeResult(records, PublishedResult{}).total_weight, 0x1p53 + 2);
}

TEST(ManifestTest, DigestsUpdatesAsDocumented) {
  const std::vector<UpdateRecord> records = {Record("a", 1), Record("b", 2)};
  std::string bytes;
  for (const auto& r : records) bytes += Text(r.contributor) + Text(r.update_id) + Text(r.digest);
  EXPECT_EQ(UpdatesDigest(records), Hash(bytes));
}

TEST(ManifestTest, DigestsResultsAsDocumented) {
  SparseTensor tensor;
  tensor.indices = {3, 9};
  tensor.values = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  PublishedResult result;
  result.spec.durability = Durability::kDurable;
  result.tensors = {tensor, SparseTensor{}};
  EXPECT_EQ(ResultDigest(result),
            Hash(U64(2) + U64(3) + U64(9) + Text("\1\2\3\4") + U64(0) + U64(0)));
  result.spec.durability = Durability::kMemory;
  const auto sum_of = [](const std::string& bytes) {
    const ArraySum sum = SumOf(bytes);
    return U64(sum.bytes) + U64(sum.xxh3);
  };
  EXPECT_EQ(ResultDigest(result), Hash(Text("xxh3") + sum_of(U64(3) + U64(9)) + sum_of("\1\2\3\4") +
                                       sum_of("") + sum_of("")));
}

TEST(ManifestTest, RowsThatAreNotKeptHaveTheDigestOfThoseThatAre) {
  for (const uint64_t rows : {1, 1023, 1024, 5000}) {
    SparseTensor tensor;
    tensor.indices = RowIds::Every(rows);
    SparseTensor kept;
    for (uint64_t row = 0; row < rows; ++row) kept.indices.kept().push_back(row);
    for (const Durability durability : {Durability::kMemory, Durability::kDurable}) {
      PublishedResult result;
      result.spec.durability = durability;
      result.tensors = {tensor};
      const std::string digest = ResultDigest(result);
      result.tensors = {kept};
      EXPECT_EQ(digest, ResultDigest(result)) << rows;
    }
  }
}

class UpdateDigestTest : public ::testing::Test {
 protected:
  std::string Digest(TestUpdate& update) {
    const auto& tensors = update.tensors();
    const auto layout = MakeUpdateLayout({.tensors = {emb_}}, HeadersOf(tensors), {});
    EXPECT_TRUE(layout.ok()) << layout.status();
    return UpdateDigest(update.header.weight, tensors, layout->order);
  }
  TestUpdate Update() { return TestUpdate("rounds/r", "a", 2.0f).Add<float>(emb_, {3, 4}, {1, 2}); }
  const TensorSpec emb_ = Sparse("emb", 10);
};

TEST_F(UpdateDigestTest, IsMadeAsDocumented) {
  TestUpdate update = Update();
  EXPECT_EQ(Digest(update), Hash(U32(0x40000000) + U64(1) + Text("emb") + Text("coo.raw") + U32(3) +
                                 U32(1) + U32(1) + U64(1) + U64(10) + U64(2) +
                                 Text(update.indices()) + Text(update.values())));
}

TEST_F(UpdateDigestTest, DependsOnWeightAndPayloadButNotOnPiecesOrTheEncodingsShortName) {
  TestUpdate same = Update();
  const std::string digest = Digest(same);
  same.tensor_header().encoding = "";
  EXPECT_EQ(Digest(same), digest);
  const std::string_view pieces[] = {std::string_view(same.values()).substr(0, 3),
                                     std::string_view(same.values()).substr(3)};
  std::vector<EncodedTensor> cut = same.tensors();
  cut[0].values = pieces;
  const size_t order[] = {0};
  EXPECT_EQ(UpdateDigest(2.0f, cut, order), digest);

  std::set<std::string> digests = {digest, UpdateDigest(2.5f, same.tensors(), order)};
  TestUpdate other = Update();
  other.values()[0] ^= 1;
  digests.insert(Digest(other));
  other = Update();
  other.indices()[0] ^= 1;
  digests.insert(Digest(other));
  EXPECT_EQ(digests.size(), 4u);
}

TEST_F(UpdateDigestTest, OfARoundInMemoryIsMadeOfSums) {
  TestUpdate update = Update();
  const size_t order[] = {0};
  const auto sum = [](const std::string& bytes) {
    const ArraySum sum = SumOf(bytes);
    return U64(sum.bytes) + U64(sum.xxh3);
  };
  EXPECT_EQ(QuickUpdateDigest(2.0f, update.tensors(), SumsOf(update.tensors()), order),
            QuickDigest(U32(0x40000000) + U64(1) + Text("emb") + Text("coo.raw") + U32(3) + U32(1) +
                        U32(1) + U64(1) + U64(10) + U64(2) + sum(update.indices()) +
                        sum(update.values())));
}

}  // namespace
}  // namespace sparseagg
