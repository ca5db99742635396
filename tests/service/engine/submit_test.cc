// Submitting an update: its receipt, its part in the result, and every reason for a refusal.
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include "service/engine/ingest/update.h"
#include "service/engine/upload/upload.h"
#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

// Calls again while folds have yet to release memory. Gives up after a minute.
absl::Status RetriedForMemory(const std::function<absl::Status()>& call) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  absl::Status status = call();
  while (RetryAfterMs(status) > 0 && std::chrono::steady_clock::now() < end) status = call();
  return status;
}

class SubmitTest : public ::testing::Test {
 protected:
  const TensorSpec spec_ = Sparse("emb", 10);
  TestEngine engine_;
  const std::string round_ = engine_.Create({spec_}, "r").name;

  TestUpdate Update(std::string contributor, float weight = 1.0f, std::string id = "u1") {
    return TestUpdate(round_, std::move(contributor), weight, std::move(id))
        .Add<float>(spec_, {1, 2}, {10, 20});
  }
};

TEST_F(SubmitTest, CountsAnUpdateAndSaysSo) {
  const auto receipt = engine_.Submit(Update("alice"));
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(receipt->round, "rounds/r");
  EXPECT_EQ(receipt->contributor, "alice");
  EXPECT_EQ(receipt->update_id, "u1");
  EXPECT_FALSE(receipt->duplicate);
  EXPECT_EQ(receipt->sequence, 1u);
  EXPECT_EQ(receipt->digest.size(), 32u);
  EXPECT_EQ(receipt->durability, Durability::kMemory);
  const RoundSnapshot round = *engine_->GetRound(round_);
  EXPECT_EQ(round.contributors, 1u);
  EXPECT_EQ(round.bytes_received, 2 * (8u + 4u));
  EXPECT_EQ(round.tensors[0].nnz_received, 2u);
}

TEST_F(SubmitTest, AddsIndicesOfOneTensorAndNotTheIndicesThemselves) {
  TestUpdate a(round_, "a");
  a.Add<float>(spec_, {0, 5}, {1, 1});
  TestUpdate b(round_, "b");
  b.Add<float>(spec_, {5, 9}, {1, 1});
  ASSERT_TRUE(engine_.Submit(a).ok());
  ASSERT_TRUE(engine_.Submit(b).ok());
  const auto result = engine_.SealAndWait(round_);
  EXPECT_THAT(result->tensors[0].indices, ElementsAre(0, 5, 9));
  EXPECT_THAT(Values<float>(result->tensors[0]), ElementsAre(1, 2, 1));
}

TEST_F(SubmitTest, PublishesAManifestOfWhatWasCounted) {
  ASSERT_TRUE(engine_.Submit(Update("a", 0.1f)).ok());
  ASSERT_TRUE(engine_.Submit(Update("b", 2.5f)).ok());
  ASSERT_TRUE(engine_.Submit(Update("b", 2.5f)).ok());
  ASSERT_FALSE(engine_.Submit(Update("c", -1.0f)).ok());
  const auto result = engine_.SealAndWait(round_);
  const Manifest& manifest = result->manifest;
  EXPECT_EQ(manifest.contributors, 2u);
  EXPECT_EQ(manifest.total_weight, double{0.1f} + double{2.5f});
  EXPECT_EQ(manifest.duplicates, 1u);
  EXPECT_THAT(manifest.rejected,
              ElementsAre(std::pair<const std::string, uint64_t>("INVALID_WEIGHT", 1)));
  EXPECT_EQ(engine_->GetRound(round_)->manifest->result_digest, manifest.result_digest);
  EXPECT_EQ(engine_->GetRound(round_)->tensors[0].nnz_result, 2u);
}

TEST_F(SubmitTest, AnswersAResendWithTheFirstReceiptInEveryLaterState) {
  const auto first = engine_.Submit(Update("a"));
  ASSERT_TRUE(engine_.Submit(Update("b")).ok());
  for (int state = 0; state < 2; ++state) {
    const auto again = engine_.Submit(Update("a"));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->duplicate);
    EXPECT_EQ(again->sequence, first->sequence);
    EXPECT_EQ(again->digest, first->digest);
    if (state == 0) engine_.SealAndWait(round_);
  }
  EXPECT_EQ(engine_->Result(round_).value()->manifest.contributors, 2u);
}

TEST_F(SubmitTest, AnswersAResendInASealedRound) {
  ASSERT_TRUE(engine_.Submit(Update("a")).ok());
  engine_.clock.Stop();
  ASSERT_EQ(engine_->SealRound(round_)->state, RoundState::kSealed);
  EXPECT_TRUE(engine_.Submit(Update("a"))->duplicate);
}

TEST(UpdateDigestTest, TellsEncodingsOfTheSameBytesApart) {
  EncodedTensor tensor;
  tensor.header.name = "emb";
  std::set<std::string> digests;
  for (const auto& [encoding, values] : {std::pair{"coo.raw", ""},
                                         {"coo.packed", ""},
                                         {"coo.packed", "int8"},
                                         {"coo.packed", "int8.stochastic"}}) {
    tensor.header.encoding = encoding;
    tensor.header.values_encoding = values;
    const size_t order[] = {0};
    digests.insert(UpdateDigest(1.0f, {&tensor, 1}, order));
  }
  EXPECT_EQ(digests.size(), 4u);
}

TEST_F(SubmitTest, KeepsTheFirstOfTwoUpdatesOfAContributor) {
  ASSERT_TRUE(engine_.Submit(Update("a")).ok());
  EXPECT_THAT(engine_.Submit(Update("a", 1.0f, "u2")).status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED"));
  TestUpdate other(round_, "a");
  other.Add<float>(spec_, {1}, {99});
  EXPECT_THAT(engine_.Submit(other).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT"));
  EXPECT_THAT(engine_.Submit(Update("a", 3.0f)).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT"));
  EXPECT_THAT(Values<float>(engine_.SealAndWait(round_)->tensors[0]), ElementsAre(10, 20));
}

TEST_F(SubmitTest, RefusesUpdatesOfARoundThatIsNotOpen) {
  const auto not_open = FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN");
  ASSERT_TRUE(engine_.Submit(Update("a")).ok());
  engine_.SealAndWait(round_);
  EXPECT_THAT(engine_.Submit(Update("late")).status(), not_open);
  const std::string aborted = engine_.Create({spec_}).name;
  TestUpdate update = Update("a");
  update.header.round = aborted;
  ASSERT_TRUE(engine_.Submit(update).ok());
  ASSERT_TRUE(engine_->AbortRound(aborted).ok());
  EXPECT_THAT(engine_.Submit(update).status(), not_open) << "nothing of an aborted round counts";
}

TEST_F(SubmitTest, TellsUnknownRoundsFromBadNames) {
  TestUpdate update = Update("a");
  update.header.round = "rounds/nowhere";
  EXPECT_THAT(engine_.Submit(update).status(),
              FailsWith(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND"));
  update.header.round = "round/r";
  EXPECT_THAT(engine_.Submit(update).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_ROUND_NAME"));
}

// --- Every reason for a refusal, which leaves the round unchanged ---

struct Refusal {
  std::string reason;
  std::string message_part;  // what the message must name
  std::function<void(TestUpdate&)> damage;
};

class RefusalTest : public SubmitTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(RefusalTest, NamesThePlaceAndChangesNothing) {
  ASSERT_TRUE(engine_.Submit(Update("before")).ok());
  const RoundSnapshot before = *engine_->GetRound(round_);
  TestUpdate update = Update("bad");
  GetParam().damage(update);
  const absl::Status status = engine_.Submit(update).status();
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument, GetParam().reason));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(GetParam().message_part));
  const RoundSnapshot after = *engine_->GetRound(round_);
  EXPECT_EQ(after.revision, before.revision);
  EXPECT_EQ(after.contributors, before.contributors);
  EXPECT_EQ(after.bytes_received, before.bytes_received);

  EXPECT_TRUE(engine_.Submit(Update("bad")).ok()) << "the corrected update is welcome";
  const auto result = engine_.SealAndWait(round_);
  EXPECT_THAT(Values<float>(result->tensors[0]), ElementsAre(20, 40));
  EXPECT_EQ(result->manifest.rejected.at(GetParam().reason), 1u);
}

void SetRow(TestUpdate& update, int64_t row) { std::memcpy(update.indices().data() + 8, &row, 8); }
void SetValue(TestUpdate& update, float value) {
  std::memcpy(update.values().data() + 4, &value, 4);
}
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    Submit, RefusalTest,
    ::testing::Values(
        Refusal{"INVALID_CONTRIBUTOR", "contributor", [](auto& u) { u.header.contributor = ""; }},
        Refusal{"INVALID_CONTRIBUTOR", "a b", [](auto& u) { u.header.contributor = "a b"; }},
        Refusal{"INVALID_UPDATE_ID", "u/1", [](auto& u) { u.header.update_id = "u/1"; }},
        Refusal{"INVALID_WEIGHT", "-1", [](auto& u) { u.header.weight = -1; }},
        Refusal{"INVALID_WEIGHT", "inf", [](auto& u) { u.header.weight = kInf; }},
        Refusal{"INVALID_WEIGHT", "nan", [](auto& u) { u.header.weight = kNan; }},
        Refusal{"UNKNOWN_TENSOR", "other",
                [](auto& u) { u.template Add<float>(Sparse("other", 10), {}, {}); }},
        Refusal{"DUPLICATE_TENSOR", "emb",
                [](auto& u) { u.template Add<float>(Sparse("emb", 10), {}, {}); }},
        Refusal{"MISSING_TENSOR", "nnz 0", [](auto& u) { u = TestUpdate("rounds/r", "bad"); }},
        Refusal{"UNKNOWN_ENCODING", "zip", [](auto& u) { u.tensor_header().encoding = "zip"; }},
        Refusal{"TYPE_MISMATCH", "emb",
                [](auto& u) { u.tensor_header().value_type = ValueType::kF64; }},
        Refusal{"SHAPE_MISMATCH", "emb", [](auto& u) { u.tensor_header().dense_shape = {11}; }},
        Refusal{"SHAPE_MISMATCH", "emb", [](auto& u) { u.tensor_header().sparse_dim = 0; }},
        Refusal{"SIZE_MISMATCH", "emb", [](auto& u) { u.tensor_header().nnz = 3; }},
        Refusal{"SIZE_MISMATCH", "emb",
                [](auto& u) { u.tensor_header().nnz = std::numeric_limits<uint64_t>::max(); }},
        Refusal{"SIZE_MISMATCH", "the payload has 15", [](auto& u) { u.indices().pop_back(); }},
        Refusal{"SIZE_MISMATCH", "and 9", [](auto& u) { u.values() += "x"; }},
        Refusal{"INDEX_OUT_OF_RANGE", "entry 1", [](auto& u) { SetRow(u, 10); }},
        Refusal{"INDEX_OUT_OF_RANGE", "negative", [](auto& u) { SetRow(u, -1); }},
        Refusal{"NON_FINITE_VALUE", "entry 1", [](auto& u) { SetValue(u, kNan); }},
        Refusal{"NON_FINITE_VALUE", "entry 1", [](auto& u) { SetValue(u, -kInf); }}));

// --- Limits ---

TEST(SubmitLimitsTest, RefusesWhatIsBeyondTheLimitsBeforeItLooksAtThePayload) {
  TestEngine engine;
  engine.options.limits.update_bytes_max = 24;
  engine.options.limits.update_nnz_max = 3;
  const TensorSpec spec = Sparse("emb", 10);
  const std::string round = engine.Create({spec}).name;
  EXPECT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1, 2}, {1, 1})).ok());
  const auto too_large = FailsWith(absl::StatusCode::kInvalidArgument, "UPDATE_TOO_LARGE");
  EXPECT_THAT(engine.Submit(TestUpdate(round, "b").Add<float>(spec, {1, 2, 3}, {1, 1, 1})).status(),
              too_large);
  EXPECT_THAT(
      engine.Submit(TestUpdate(round, "c").Add<float>(spec, {1, 2, 3, 4}, {1, 1, 1, 1})).status(),
      too_large);
}

TEST(SubmitLimitsTest, RoundsHoldNoMoreMemoryThanTheyMay) {
  TestEngine engine;
  engine.options.limits.aggregation_bytes_max = 64 << 10;
  const auto full = FailsWith(absl::StatusCode::kResourceExhausted, "AGGREGATION_FULL");
  TensorSpec spec = Sparse("emb", 2000);
  spec.plan = engine->backend_info().plans.back();  // not the dense one, whose memory is fixed
  const std::string round = engine.Create({spec}).name;
  const auto update = [&](const std::string& name, const std::string& contributor, int64_t first) {
    std::vector<int64_t> rows(500);
    std::iota(rows.begin(), rows.end(), first);
    return TestUpdate(name, contributor).Add<float>(spec, rows, std::vector<float>(500, 1.0f));
  };
  absl::Status status;
  int counted = 0;
  for (; status.ok() && counted < 1000; ++counted) {
    status =
        engine.Submit(update(round, "c" + std::to_string(counted), counted % 4 * 500)).status();
  }
  EXPECT_THAT(status, full);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("aggregation memory"));
  EXPECT_GT(counted, 1);
  EXPECT_EQ(engine->GetRound(round)->contributors, static_cast<uint64_t>(counted - 1));

  // An aborted and deleted round releases its memory as soon as its last fold has ended.
  ASSERT_TRUE(engine->AbortRound(round).ok());
  ASSERT_TRUE(engine->DeleteRound(round).ok());
  const std::string next = engine.Create({spec}).name;
  do {
    std::this_thread::yield();
    status = engine.Submit(update(next, "a", 0)).status();
  } while (ErrorReason(status) == "AGGREGATION_FULL");
  EXPECT_TRUE(status.ok()) << status;
}

TEST(SubmitLimitsTest, ADenseRoundIsRefusedBeforeItsMemoryIsTaken) {
  TestEngine engine;
  engine.options.limits.aggregation_bytes_max = 1 << 20;
  TensorSpec spec = Sparse("emb", 1000);
  EXPECT_TRUE(engine->CreateRound({.round_id = "small", .spec = {.tensors = {spec}}}).ok());
  spec = Sparse("emb", 500'000);
  spec.plan = "dense";
  EXPECT_THAT(engine->CreateRound({.round_id = "large", .spec = {.tensors = {spec}}}).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "AGGREGATION_FULL"));
}

// The record of a contributor takes memory, however small its update was.
TEST(SubmitLimitsTest, EmptyUpdatesAreRefusedWhenMemoryIsFullOfThem) {
  constexpr uint64_t kUpdatesMax = 2000;
  TestEngine engine;
  engine.options.limits.aggregation_bytes_max = kUpdatesMax * kRecordBytes;
  const TensorSpec spec = Sparse("emb", 1000);
  const std::string round = engine.Create({spec}).name;
  const auto reduction = engine->NewReduction({.tensors = {spec}}, "");
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  uint64_t counted = 0;
  absl::Status status;
  for (; status.ok() && counted <= kUpdatesMax; ++counted) {
    TestUpdate update(round, "c" + std::to_string(counted));
    update.Add<float>(spec, {}, {});
    status = engine.Submit(update).status();
    if (status.ok()) status = (*reduction)->Add(update.header, update.tensors());
  }
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kResourceExhausted, "AGGREGATION_FULL"));
  EXPECT_GT(counted, kUpdatesMax / 4);
  EXPECT_LE(counted, kUpdatesMax / 2 + 1) << "in the round and in the reduction";
}

TEST(SubmitLimitsTest, AsksToComeBackWhenStagingIsFullAndTakesItThen) {
  constexpr size_t kUploads = 1000;
  TestEngine engine;
  const TensorSpec spec = Sparse("emb", 100'000);
  TestUpdate upload("rounds/r", "slow");
  upload.Add<float>(spec, {1, 2, 3}, {1, 1, 1});
  const uint64_t begun_bytes = kUploads * HeaderBytes(upload.headers());
  engine.options.limits.staging_bytes_max = begun_bytes + kUploads * 20;
  const std::string round = engine.Create({spec}, "r").name;
  std::vector<int64_t> rows(engine.options.limits.staging_bytes_max / 16);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  TestUpdate large(round, "large");
  large.Add<float>(spec, rows, std::vector<float>(rows.size(), 1.0f));
  TestUpdate too_large(round, "large");
  const std::vector<int64_t> more_rows(engine.options.limits.staging_bytes_max / 12 + 1);
  too_large.Add<float>(spec, more_rows, std::vector<float>(more_rows.size(), 1.0f));
  EXPECT_THAT(engine->BeginUpload(too_large.header, too_large.headers()).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "UPDATE_TOO_LARGE"))
      << "its entries are beyond the whole budget";

  // A new upload takes the memory of its headers; then bytes take memory.
  std::vector<std::shared_ptr<Upload>> uploads;
  for (size_t i = 0; i < kUploads; ++i) {
    upload.header.contributor = "slow" + std::to_string(i);
    auto begun = engine->BeginUpload(upload.header, upload.headers());
    ASSERT_TRUE(begun.ok()) << begun.status();
    uploads.push_back(*begun);
  }
  EXPECT_EQ(engine->Stats().staged_bytes, begun_bytes);
  EXPECT_EQ(engine->Stats().open_uploads, kUploads);
  absl::Status status;
  for (size_t i = uploads.size(); status.ok();) {
    ASSERT_GT(--i, 0u);
    status = uploads[i]->Append(0, upload.byte_string(), std::nullopt);
  }
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kResourceExhausted, "STAGING_FULL"));
  EXPECT_GT(RetryAfterMs(status), 0u);
  EXPECT_THAT(engine.Submit(large).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "STAGING_FULL"));
  // The oldest upload has the memory it needs, and then the next.
  for (auto& begun : uploads) {
    const uint64_t at = begun->committed_offset();
    const auto append = [&] {
      return begun->Append(at, upload.byte_string().substr(at), std::nullopt);
    };
    status = RetriedForMemory(append);
    ASSERT_TRUE(status.ok()) << status;
    status = RetriedForMemory([&] { return begun->Finish().status(); });
    ASSERT_TRUE(status.ok()) << status;
  }
  engine.WaitFor(round, [&](const auto& r) { return r.contributors == uploads.size(); });
  // Folds release their memory; then the large update fits.
  status = RetriedForMemory([&] { return engine.Submit(large).status(); });
  EXPECT_TRUE(status.ok()) << status;
  const auto result = engine.SealAndWait(round);
  EXPECT_EQ(result->manifest.contributors, uploads.size() + 1);
  EXPECT_FALSE(result->manifest.rejected.contains("STAGING_FULL"))
      << "what may be tried again is not rejected";
}

TEST(SubmitLimitsTest, AnUpdateThatAloneMakesTheResultTooLargeIsRefused) {
  TestEngine engine;
  engine.options.limits.result_nnz_max = 3;
  const TensorSpec spec = Sparse("emb", 100);
  const std::string round = engine.Create({spec}).name;
  const absl::Status refused =
      engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1, 2, 3, 4}, {1, 1, 1, 1})).status();
  EXPECT_THAT(refused, FailsWith(absl::StatusCode::kInvalidArgument, "RESULT_NNZ_EXCEEDED"));
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("\"emb\""));
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("result-nnz-max = 3"));
  ASSERT_TRUE(
      engine.Submit(TestUpdate(round, "b").Add<float>(spec, {4, 4, 4, 4}, {1, 1, 1, 1})).ok())
      << "one row, however often";
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "c").Add<float>(spec, {4, 5, 6}, {1, 1, 1})).ok());
  EXPECT_EQ(engine.SealAndWait(round)->tensors[0].nnz(), 3u);
}

TEST(SubmitLimitsTest, ARoundWhoseUnionIsTooLargeIsAborted) {
  TestEngine engine;
  engine.options.limits.result_nnz_max = 3;
  const TensorSpec spec = Sparse("emb", 100);
  const std::string round = engine.Create({spec}).name;
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1, 2}, {1, 1})).ok());
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "b").Add<float>(spec, {3, 4}, {1, 1})).ok());
  ASSERT_TRUE(engine->SealRound(round).ok());
  const RoundSnapshot ended = engine.WaitUntilFinal(round);
  EXPECT_EQ(ended.state, RoundState::kAborted);
  EXPECT_THAT(ended.failure, ::testing::HasSubstr("\"emb\""));
  EXPECT_THAT(ended.failure, ::testing::HasSubstr("result-nnz-max = 3"));
  const absl::Status refusals[] = {
      engine->Result(round).status(), engine->SealRound(round).status(),
      engine.Submit(TestUpdate(round, "c").Add<float>(spec, {1}, {1})).status()};
  for (const absl::Status& refusal : refusals) {
    EXPECT_THAT(std::string(refusal.message()), ::testing::HasSubstr(ended.failure));
  }
}

// --- Several tensors ---

TEST(SubmitTensorsTest, TakesTensorsInAnyOrderAndIdentifiesThemAlike) {
  TestEngine engine;
  const TensorSpec emb = Sparse("emb", 10);
  const TensorSpec bias{.name = "bias", .dense_shape = {2, 2}, .sparse_dim = 0};
  const TensorSpec hits = Sparse("hits", 10, "count", ValueType::kI32);
  const std::string round = engine.Create({emb, bias, hits}).name;
  TestUpdate update(round, "a", 2.0f);
  update.Add<int32_t>(hits, {3}, {7}).Add<float>(bias, {}, {1, 2, 3, 4}).Add<float>(emb, {4}, {5});
  TestUpdate same(round, "a", 2.0f);
  same.Add<float>(emb, {4}, {5}).Add<float>(bias, {}, {1, 2, 3, 4}).Add<int32_t>(hits, {3}, {7});
  ASSERT_TRUE(engine.Submit(update).ok());
  EXPECT_TRUE(engine.Submit(same)->duplicate);

  const auto result = engine.SealAndWait(round);
  EXPECT_THAT(result->tensors[0].indices, ElementsAre(4));
  EXPECT_THAT(Values<float>(result->tensors[0]), ElementsAre(10));
  EXPECT_THAT(Values<float>(result->tensors[1]), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(Values<uint64_t>(result->tensors[2]), ElementsAre(1));
  EXPECT_EQ(result->result_specs[0].value_type, ValueType::kF32);
  EXPECT_EQ(result->result_specs[2].value_type, ValueType::kU64);
  EXPECT_THAT(result->result_specs[2].dense_shape, ElementsAre(10));
}

TEST(SubmitTensorsTest, AContributorThatTouchedNothingStillCounts) {
  TestEngine engine;
  const TensorSpec mean = Sparse("emb", 10, "weighted_mean");
  const std::string round = engine.Create({mean}).name;
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(mean, {1}, {8})).ok());
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "b", 3.0f).Add<float>(mean, {}, {})).ok());
  EXPECT_THAT(Values<float>(engine.SealAndWait(round)->tensors[0]), ElementsAre(2));
}

TEST(SubmitTensorsTest, AnOverflowOfCheckedIntegersAbortsTheRoundAndSaysWhere) {
  TestEngine engine;
  const TensorSpec spec = Sparse("hits", 10, "sum", ValueType::kI32);
  const std::string round = engine.Create({spec}).name;
  const int32_t large = std::numeric_limits<int32_t>::max();
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<int32_t>(spec, {7}, {large})).ok());
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "b").Add<int32_t>(spec, {7}, {large})).ok());
  ASSERT_TRUE(engine->SealRound(round).ok());
  const RoundSnapshot failed = engine.WaitUntilFinal(round);
  EXPECT_EQ(failed.state, RoundState::kAborted);
  EXPECT_THAT(failed.failure, ::testing::HasSubstr("hits"));
  EXPECT_THAT(failed.failure, ::testing::HasSubstr("7"));
  EXPECT_FALSE(engine->Result(round).ok());
}

TEST(SubmitTensorsTest, AnEmptyRoundPublishesAnEmptyResult) {
  TestEngine engine;
  const std::string round = engine.Create({Sparse("emb", 10)}).name;
  const auto result = engine.SealAndWait(round);
  EXPECT_EQ(result->tensors[0].nnz(), 0u);
  EXPECT_EQ(result->manifest.contributors, 0u);
  EXPECT_EQ(result->manifest.total_weight, 0.0);
}

}  // namespace
}  // namespace sparseagg
