// An engine on the durable store is stopped and started again: rounds are unchanged, results have
// the same bits, and damage is reported.
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "service/store/database.h"
#include "service/store/durable_store.h"
#include "service/store/store_errors.h"
#include "tests/service/engine/testing.h"
#include "tests/support/manual_executor.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

class RecoveryTest : public ::testing::Test {
 protected:
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Restart() {
    const absl::Status recovered = engine_.Restart();
    ASSERT_TRUE(recovered.ok()) << recovered;
  }
  void Create(std::vector<TensorSpec> tensors, const std::string& id) {
    const auto round = engine_->CreateRound(
        {.round_id = id,
         .request_id = "",
         .spec = {.tensors = std::move(tensors), .durability = Durability::kDurable}});
    ASSERT_TRUE(round.ok()) << round.status();
  }
  absl::StatusOr<Receipt> Submit(const std::string& contributor, const std::vector<float>& values,
                                 const std::string& round = "rounds/r") {
    std::vector<int64_t> rows(values.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(3 * i);
    return engine_.Submit(
        TestUpdate(round, contributor, 2.0f).Add(Sparse("t", 1'000'000), rows, values));
  }
  RoundSnapshot Round(const std::string& name = "rounds/r") { return *engine_->GetRound(name); }

  testing::TemporaryFolder folder_;
  testing::TemporaryFolder copies_;  // copies of the folder; deleted when no store is open
  TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(); }};
};

TEST_F(RecoveryTest, AnOpenRoundGoesOnWhereItWas) {
  Create({Sparse("t", 1'000'000)}, "r");
  // Cancels to 1 only when summed exactly.
  ASSERT_TRUE(Submit("a", {1e30f, 5}).ok());
  ASSERT_TRUE(Submit("b", {1}).ok());
  const RoundSnapshot before = Round();
  Restart();
  const RoundSnapshot after = Round();
  EXPECT_EQ(after.state, RoundState::kOpen);
  EXPECT_EQ(after.create_time, before.create_time);
  EXPECT_EQ(after.contributors, 2u);
  EXPECT_EQ(after.bytes_received, before.bytes_received);
  EXPECT_EQ(after.revision, before.revision);
  EXPECT_EQ(after.tensors[0].nnz_received, 3u);
  EXPECT_EQ(after.spec.durability, Durability::kDurable);

  const auto resent = Submit("a", {1e30f, 5});
  ASSERT_TRUE(resent.ok()) << resent.status();
  EXPECT_TRUE(resent->duplicate);
  EXPECT_EQ(resent->sequence, 1u);
  EXPECT_THAT(Submit("a", {7}).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT"));
  const auto next = Submit("c", {-1e30f});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->sequence, 3u);
  EXPECT_EQ(next->durability, Durability::kDurable);
  const auto result = engine_.SealAndWait("rounds/r");
  EXPECT_EQ(Values<float>(result->tensors[0]), (std::vector<float>{2, 10}));
  EXPECT_EQ(result->manifest.contributors, 3u);
}

TEST_F(RecoveryTest, AResultHasTheSameBitsWithAndWithoutRestarts) {
  const auto publish = [this](const std::string& id, bool restarts) {
    const std::string name = "rounds/" + id;
    Create({Sparse("t", 1'000'000, "weighted_mean")}, id);
    for (int i = 0; i < 30; ++i) {
      std::vector<float> values;
      for (int v = 0; v < 50; ++v) values.push_back(0.1f * static_cast<float>(i * v + 1));
      EXPECT_TRUE(Submit(absl::StrCat("c", i), values, name).ok());
      if (restarts && i % 10 == 5) Restart();
    }
    const auto result = engine_.SealAndWait(name);
    return std::pair(result->tensors[0], result->manifest.result_digest);
  };
  const auto straight = publish("straight", false);
  const auto interrupted = publish("interrupted", true);
  EXPECT_EQ(straight.first.values, interrupted.first.values);
  EXPECT_EQ(straight.second, interrupted.second);
}

TEST_F(RecoveryTest, ASealedRoundIsPublishedAfterTheRestart) {
  Create({Sparse("t", 1'000'000)}, "r");
  ASSERT_TRUE(Submit("a", {1, 2}).ok());
  {
    // This simulates the end of the process between seal and publication.
    engine_.clock.Stop();
    ASSERT_TRUE(engine_->SealRound("rounds/r").ok());
    std::filesystem::copy(folder_.path(), copies_.path() + "/copy",
                          std::filesystem::copy_options::recursive);
    engine_.clock.GoOn();
  }
  auto copied = OpenDurableStore({.directory = copies_.path() + "/copy", .free_bytes_min = 0});
  ASSERT_TRUE(copied.ok()) << copied.status();
  TestEngine other(testing::MakeBackend("cpu"), [&] { return *std::move(copied); });
  ASSERT_TRUE(other->Recover().ok());
  const RoundSnapshot round = other.WaitUntilFinal("rounds/r");
  EXPECT_EQ(round.state, RoundState::kPublished) << round.failure;
  EXPECT_EQ(Values<float>(other->Result("rounds/r").value()->tensors[0]),
            (std::vector<float>{2, 4}));
}

TEST_F(RecoveryTest, APublishedResultStays) {
  Create({Sparse("t", 1'000'000), Sparse("n", 10, "count")}, "r");
  ASSERT_TRUE(engine_
                  .Submit(TestUpdate("rounds/r", "a", 0.5f)
                              .Add(Sparse("t", 1'000'000), {5, 4}, std::vector<float>{1, 3})
                              .Add(Sparse("n", 10), {7}, std::vector<float>{1}))
                  .ok());
  EXPECT_FALSE(Submit("bad", {}).ok());  // refused: it has one of two tensors
  const auto before = engine_.SealAndWait("rounds/r");
  Restart();
  const RoundSnapshot round = Round();
  EXPECT_EQ(round.state, RoundState::kPublished);
  EXPECT_EQ(round.tensors[0].nnz_received, 2u);
  EXPECT_EQ(round.tensors[0].nnz_result, 2u);
  EXPECT_TRUE(round.seal_time.has_value());
  EXPECT_EQ(round.publish_time, before->manifest.publish_time);
  const auto after = engine_->Result("rounds/r").value();
  EXPECT_EQ(after->tensors, before->tensors);
  EXPECT_EQ(after->result_specs.size(), 2u);
  EXPECT_EQ(after->result_specs[1].value_type, ValueType::kU64);
  EXPECT_EQ(after->manifest.result_digest, before->manifest.result_digest);
  EXPECT_EQ(after->manifest.updates_digest, before->manifest.updates_digest);
  EXPECT_EQ(after->manifest.rejected, before->manifest.rejected);
  EXPECT_EQ(after->manifest.rejected.size(), 1u);
}

TEST_F(RecoveryTest, AnAbortedRoundStaysAbortedAndADeletedOneGone) {
  Create({Sparse("t", 1'000'000)}, "aborted");
  Create({Sparse("t", 1'000'000)}, "deleted");
  ASSERT_TRUE(Submit("a", {1}, "rounds/aborted").ok());
  const auto aborted = engine_->AbortRound("rounds/aborted");
  ASSERT_TRUE(aborted.ok());
  ASSERT_TRUE(engine_->AbortRound("rounds/deleted").ok());
  ASSERT_TRUE(engine_->DeleteRound("rounds/deleted").ok());
  Restart();
  EXPECT_EQ(Round("rounds/aborted").state, RoundState::kAborted);
  EXPECT_EQ(Round("rounds/aborted").revision, aborted->revision);
  EXPECT_TRUE(absl::IsNotFound(engine_->GetRound("rounds/deleted").status()));
  ASSERT_TRUE(engine_->DeleteRound("rounds/aborted").ok());
}

TEST_F(RecoveryTest, ARepeatedRequestFindsTheRoundOfBeforeTheRestart) {
  const CreateRoundArgs args = {
      .round_id = "",
      .request_id = "once",
      .spec = {.tensors = {Sparse("t", 9)}, .durability = Durability::kDurable}};
  const std::string name = engine_->CreateRound(args)->name;
  Restart();
  EXPECT_EQ(engine_->CreateRound(args)->name, name);
  CreateRoundArgs other = args;
  other.spec.tensors[0].op = "max";
  EXPECT_THAT(engine_->CreateRound(other).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "REQUEST_ID_CONFLICT"));
}

TEST_F(RecoveryTest, AMemoryRoundIsGone) {
  ASSERT_TRUE(
      engine_
          ->CreateRound({.round_id = "m",
                         .request_id = "",
                         .spec = {.tensors = {Sparse("t", 9)}, .durability = Durability::kMemory}})
          .ok());
  Restart();
  EXPECT_TRUE(absl::IsNotFound(engine_->GetRound("rounds/m").status()));
}

TEST_F(RecoveryTest, DamageIsConfinedToItsRound) {
  for (const char* id : {"r", "sound"}) Create({Sparse("t", 1'000'000)}, id);
  ASSERT_TRUE(Submit("a", std::vector<float>(50'000, 1.5f)).ok());  // large enough for a file
  ASSERT_TRUE(Submit("a", {3}, "rounds/sound").ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/payloads")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('\x55');
  }
  Restart();
  EXPECT_EQ(Round().state, RoundState::kAborted);
  EXPECT_THAT(Round().failure, ::testing::HasSubstr("DATA_LOSS"));
  EXPECT_THAT(Round().failure, ::testing::HasSubstr("contributor \"a\""));
  const auto result = engine_.SealAndWait("rounds/sound");
  EXPECT_EQ(Values<float>(result->tensors[0]), std::vector<float>{6});
  EXPECT_TRUE(engine_->DeleteRound("rounds/r").ok());
}

TEST_F(RecoveryTest, ALimitThatIsTooLowForWhatIsStoredSaysSo) {
  Create({Sparse("t", 1'000'000)}, "r");
  ASSERT_TRUE(Submit("a", std::vector<float>(1000, 1.5f)).ok());
  engine_.options.limits.update_nnz_max = 10;
  const absl::Status recovered = engine_.Restart();
  EXPECT_THAT(recovered, FailsWith(absl::StatusCode::kInvalidArgument, "UPDATE_TOO_LARGE"));
  EXPECT_THAT(std::string(recovered.message()), ::testing::HasSubstr("rounds/r"));
}

TEST_F(RecoveryTest, FewerRoundsThanAreStoredNameTheOneTooMany) {
  for (const char* id : {"a", "b"}) Create({Sparse("t", 10)}, id);
  engine_.options.limits.rounds_max = 1;
  const absl::Status recovered = engine_.Restart();
  EXPECT_THAT(recovered, FailsWith(absl::StatusCode::kResourceExhausted, "ROUNDS_FULL"));
  EXPECT_THAT(std::string(recovered.message()), ::testing::HasSubstr("round \"rounds/b\""));
}

// Such a round was once deleted seconds after the start, because its age was counted from 1970 or
// from its publication.
TEST_F(RecoveryTest, TheRetentionOfADamagedRoundBeginsWithTheStart) {
  for (const char* id : {"row", "result"}) Create({Sparse("t", 1'000'000)}, id);
  ASSERT_TRUE(Submit("a", std::vector<float>(50'000, 1.5f), "rounds/result").ok());
  engine_.SealAndWait("rounds/result");
  engine_->Drain();
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/payloads")) {
    std::filesystem::resize_file(entry.path(), 10);
  }
  std::filesystem::copy(folder_.path(), copies_.path() + "/copy",
                        std::filesystem::copy_options::recursive);
  {
    auto database = Database::Open(copies_.path() + "/copy/store.db");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Run("UPDATE rounds SET crc32c = 0 WHERE name = 'rounds/row'").ok());
  }
  testing::ManualExecutor executor;
  TestEngine other(testing::MakeBackend("cpu"), [this] {
    return *OpenDurableStore({.directory = copies_.path() + "/copy", .free_bytes_min = 0});
  });
  const auto look_for_what_is_over = [&] {
    executor.Advance(other.options.check_interval);
    executor.WaitUntilIdle();
  };
  other.options.executor = &executor;
  other.clock.Advance(std::chrono::hours(2));
  const auto start = other.clock.Now();
  other.options.limits.result_retention_ms = 3600'000;
  ASSERT_TRUE(other->Recover().ok());
  look_for_what_is_over();
  for (const char* name : {"rounds/row", "rounds/result"}) {
    ASSERT_TRUE(other->GetRound(name).ok()) << name;
    const RoundSnapshot round = *other->GetRound(name);
    EXPECT_EQ(round.state, RoundState::kAborted) << name;
    EXPECT_GE(round.abort_time.value(), start) << name;
    EXPECT_EQ(round.spec.durability, Durability::kDurable) << name;
  }
  EXPECT_GE(other->GetRound("rounds/row")->create_time, start);
  other.clock.Advance(std::chrono::hours(2));
  look_for_what_is_over();
  EXPECT_TRUE(other->ListRounds("", 10).empty());
  executor.DropAll();
}

// One tenant, within its limits, could once prevent the server from starting.
TEST_F(RecoveryTest, WhatWasAcceptedIsTakenUpWhateverTheBudget) {
  const TensorSpec spec = Sparse("t", 1'000'000);
  for (const char* id : {"open", "published"}) Create({spec}, id);
  for (const char* name : {"rounds/open", "rounds/published"}) {
    for (const char* contributor : {"a", "b"}) {
      ASSERT_TRUE(Submit(contributor, std::vector<float>(10'000, 1.5f), name).ok());
    }
  }
  engine_.SealAndWait("rounds/published");
  engine_->Drain();
  for (uint64_t* limit :
       {&engine_.options.limits.aggregation_bytes_max, &engine_.options.limits.tenant_bytes_max}) {
    const uint64_t before = std::exchange(*limit, 1000);
    Restart();
    EXPECT_EQ(Round("rounds/open").contributors, 2u);
    EXPECT_GT(engine_->Stats().aggregation_bytes, 100'000u) << "it is counted";
    EXPECT_EQ(Submit("c", {1}, "rounds/open").status().code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(engine_->Result("rounds/published").value()->manifest.contributors, 2u);
    *limit = before;
  }
  Restart();
  EXPECT_TRUE(Submit("c", {1}, "rounds/open").ok());
}

TEST_F(RecoveryTest, APlanThatTheBackEndDoesNotHaveIsLeftOut) {
  TensorSpec spec = Sparse("t", 1'000'000);
  spec.plan = "sweep";
  Create({spec}, "r");
  ASSERT_TRUE(Submit("a", {1, 2}).ok());
  engine_->Drain();
  TestEngine other(testing::MakeBackend("reference"), [this] {
    std::filesystem::copy(folder_.path(), copies_.path() + "/copy",
                          std::filesystem::copy_options::recursive);
    return *OpenDurableStore({.directory = copies_.path() + "/copy", .free_bytes_min = 0});
  });
  const absl::Status recovered = other->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_EQ(Values<float>(other.SealAndWait("rounds/r")->tensors[0]), (std::vector<float>{2, 4}));
}

// The connection breaks in the middle of a large update, and the server restarts.
TEST_F(RecoveryTest, ALargeUpdateInChunksGoesOnAfterARestart) {
  const TensorSpec spec = Sparse("t", 1'000'000);
  Create({spec}, "r");
  std::vector<int64_t> rows(50'000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  TestUpdate update("rounds/r", "a", 2.0f);
  update.Add<float>(spec, rows, std::vector<float>(rows.size(), 1.5f));
  const std::string bytes = update.byte_string();
  const auto begin = [&] {
    auto upload = engine_->BeginUpload(update.header, update.headers());
    EXPECT_TRUE(upload.ok()) << upload.status();
    return *std::move(upload);
  };
  ASSERT_TRUE(begin()->Append(0, bytes.substr(0, 300'000), std::nullopt).ok());
  EXPECT_LT(engine_->Stats().staged_bytes, 300'000u) << "the bytes are on disk";
  EXPECT_GE(engine_->Stats().upload_disk_bytes, 300'000u);
  Restart();
  EXPECT_EQ(Round().contributors, 0u) << "half an update counts for nothing";
  auto resumed = begin();
  EXPECT_EQ(resumed->committed_offset(), 300'000u);
  ASSERT_TRUE(resumed->Append(300'000, bytes.substr(300'000), std::nullopt).ok());
  const auto receipt = resumed->Finish();
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(receipt->durability, Durability::kDurable);
  EXPECT_EQ(engine_->Stats().upload_disk_bytes, 0u);
  const auto whole = engine_.Submit(update);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->duplicate);
  EXPECT_EQ(whole->digest, receipt->digest);
  Restart();
  const auto result = engine_.SealAndWait("rounds/r");
  EXPECT_EQ(Values<float>(result->tensors[0]), std::vector<float>(rows.size(), 3.0f));
}

TEST_F(RecoveryTest, AnUploadThatTheDiskHasLostBeginsAgain) {
  bool lost = true;
  const auto lose = [&](Failpoint point) {
    const bool synced = point == Failpoint::kCheckpointSynced && std::exchange(lost, false);
    return synced ? UploadLost() : absl::OkStatus();
  };
  const testing::TemporaryFolder folder;
  TestEngine engine(testing::MakeBackend("cpu"), [&] {
    return *OpenDurableStore({.directory = folder.path(),
                              .free_bytes_min = 0,
                              .checkpoint_bytes = 100'000,
                              .failpoints = {lose}});
  });
  const TensorSpec spec = Sparse("t", 1'000'000);
  engine.Create(RoundSpec{.tensors = {spec}, .durability = Durability::kDurable});
  TestUpdate update("rounds/r", "a");
  update.Add<float>(spec, std::vector<int64_t>(50'000, 3), std::vector<float>(50'000, 1.0f));
  const std::string bytes = update.byte_string();
  auto upload = engine->BeginUpload(update.header, update.headers()).value();
  EXPECT_THAT(upload->Append(0, bytes.substr(0, 300'000), std::nullopt),
              FailsWith(absl::StatusCode::kAborted, "UPLOAD_LOST"));
  EXPECT_THAT(upload->Append(300'000, bytes.substr(300'000), std::nullopt),
              FailsWith(absl::StatusCode::kAborted, "UPLOAD_LOST"));
  upload = engine->BeginUpload(update.header, update.headers()).value();
  EXPECT_EQ(upload->committed_offset(), 0u);
  ASSERT_TRUE(upload->Append(0, bytes, std::nullopt).ok());
  EXPECT_TRUE(upload->Finish().ok());
}

TEST_F(RecoveryTest, AnUploadThatNobodyResumesLeavesNothingBehind) {
  const TensorSpec spec = Sparse("t", 1'000'000);
  Create({spec}, "r");
  std::vector<int64_t> rows(50'000, 3);
  TestUpdate update("rounds/r", "a");
  update.Add<float>(spec, rows, std::vector<float>(rows.size(), 1.0f));
  const auto begin = [&] { return *engine_->BeginUpload(update.header, update.headers()); };
  const auto files = [this] {
    const auto list = std::filesystem::directory_iterator(folder_.path() + "/payloads");
    return std::distance(std::filesystem::begin(list), std::filesystem::end(list));
  };
  auto upload = begin();
  ASSERT_TRUE(upload->Append(0, update.byte_string().substr(0, 300'000), std::nullopt).ok());
  EXPECT_EQ(files(), 2);
  engine_.clock.Advance(std::chrono::minutes(11));
  upload = begin();
  EXPECT_EQ(upload->committed_offset(), 0u);
  EXPECT_EQ(files(), 0);
  ASSERT_TRUE(upload->Append(0, update.byte_string().substr(0, 300'000), std::nullopt).ok());
  upload->Refuse(absl::AbortedError("too slow"));
  EXPECT_EQ(files(), 0);
  EXPECT_EQ(upload->Append(300'000, "x", std::nullopt), absl::AbortedError("too slow"));
  upload = begin();
  ASSERT_TRUE(upload->Append(0, update.byte_string().substr(0, 300'000), std::nullopt).ok());
  engine_.SealAndWait("rounds/r");
  EXPECT_EQ(files(), 0);
  EXPECT_EQ(engine_->Stats().upload_disk_bytes, 0u);
  EXPECT_EQ(engine_->Stats().open_uploads, 0u);
  EXPECT_EQ(engine_->Stats().staged_bytes, 0u);
}

}  // namespace
}  // namespace sparseagg
