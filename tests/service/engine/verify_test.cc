// A published round that kept its updates can be computed again; otherwise verification reports
// that the updates are gone.
#include "service/engine/recovery/verify.h"

#include "service/engine/result/manifest.h"
#include "service/engine/store_check.h"
#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestUpdate;

constexpr char kRound[] = "rounds/r";

bool Never() { return false; }  // cancelled

class VerifyTest : public ::testing::Test {
 protected:
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Publish(bool keep_updates) {
    TensorSpec spec = Sparse("t", 1'000'000, "weighted_mean");
    spec.plan = "sweep";  // a plan of the cpu back end only
    engine_.Create(RoundSpec{
        .tensors = {spec}, .durability = Durability::kDurable, .keep_updates = keep_updates});
    for (int i = 0; i < 20; ++i) {
      std::vector<int64_t> rows(i == 0 ? 20'000 : 50);  // the first is large enough for a file
      std::vector<float> values(rows.size());
      for (size_t r = 0; r < rows.size(); ++r) {
        rows[r] = static_cast<int64_t>(r * 7 % 1000 * (i + 1));
        values[r] = 0.1f * static_cast<float>(r + 1);
      }
      const auto receipt = engine_.Submit(
          TestUpdate(kRound, "c" + std::to_string(i), 0.3f * i).Add(spec, rows, values));
      ASSERT_TRUE(receipt.ok()) << receipt.status();
    }
    result_ = engine_.SealAndWait(kRound);
    engine_->Drain();  // erasures are done
    ASSERT_TRUE(engine_.Restart().ok());
  }
  // Verifies on the reference back end with unlimited memory.
  absl::StatusOr<Verification> VerifyAgain(const PublishedResult& result,
                                           const VerifyOptions& options = {}) {
    Admission memory(uint64_t{1} << 40, kAggregationBudget);
    return Verify(engine_.store(), kRound, result, *testing::MakeBackend("reference"), memory,
                  options);
  }
  size_t PayloadFiles() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path() + "/payloads"), {});
  }

  testing::TemporaryFolder folder_;
  testing::TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(); }};
  std::shared_ptr<const PublishedResult> result_;
};

TEST_F(VerifyTest, ARoundThatKeptItsUpdatesIsComputedAgainBitForBit) {
  Publish(/*keep_updates=*/true);
  const auto verified = engine_->VerifyRound(kRound, Never);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->contributors, 20u);
  EXPECT_EQ(verified->bytes_read, engine_->GetRound(kRound)->bytes_received);
  EXPECT_EQ(verified->result_digest, result_->manifest.result_digest);
  EXPECT_EQ(verified->updates_digest, result_->manifest.updates_digest);
  EXPECT_EQ(verified->backend, "reference");
}

TEST_F(VerifyTest, ARoundWithoutItsUpdatesSaysThatOnlyItsResultWasChecked) {
  Publish(/*keep_updates=*/false);
  const absl::Status verified = engine_->VerifyRound(kRound, Never).status();
  EXPECT_THAT(verified, FailsWith(absl::StatusCode::kFailedPrecondition, "UPDATES_NOT_KEPT"));
  EXPECT_THAT(std::string(verified.message()), HasSubstr("has the digest of its manifest"));
}

TEST_F(VerifyTest, KeptUpdatesAreErasedWithTheRound) {
  Publish(/*keep_updates=*/true);
  EXPECT_EQ(PayloadFiles(), 1u) << "of the large update";
  ASSERT_TRUE(engine_->DeleteRound(kRound).ok());
  engine_->Drain();
  EXPECT_EQ(PayloadFiles(), 0u);
}

TEST_F(VerifyTest, AnotherResultThanThatOfTheUpdatesIsAMismatch) {
  Publish(/*keep_updates=*/true);
  PublishedResult other = *result_;
  other.tensors[0].values[3] ^= std::byte{1};
  const auto mismatch = FailsWith(absl::StatusCode::kDataLoss, "RESULT_MISMATCH");
  absl::Status status = VerifyAgain(other).status();
  EXPECT_THAT(status, mismatch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the stored result"));
  // The result agrees with its manifest but belongs to other updates.
  other = *result_;
  other.manifest.updates_digest[0] ^= 1;
  EXPECT_THAT(VerifyAgain(other).status(), mismatch);
  EXPECT_TRUE(VerifyAgain(*result_).ok());
}

TEST_F(VerifyTest, AResultThatOtherUpdatesGiveIsAMismatchAndItsRowIsNamed) {
  Publish(/*keep_updates=*/true);
  PublishedResult other = *result_;
  other.tensors[0].values[3] ^= std::byte{1};
  other.manifest.result_digest = ResultDigest(other);
  const absl::Status status = VerifyAgain(other).status();
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kDataLoss, "RESULT_MISMATCH"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"t\", row 0: computed again"));
}

TEST_F(VerifyTest, WithLittleMemoryTheUpdatesAreReadSeveralTimes) {
  Publish(/*keep_updates=*/true);
  constexpr uint64_t kBytes = 200'000;  // the reference back end takes some megabytes for all rows
  Admission memory(kBytes, kAggregationBudget);
  const auto backend = testing::MakeBackend("reference");
  int asked = 0;
  const auto verified = Verify(engine_.store(), kRound, *result_, *backend, memory,
                               {.memory_bytes = kBytes, .cancelled = [&] { return ++asked < 0; }});
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_GT(asked, 3 * 20) << "once for each update that is read";
  EXPECT_EQ(verified->bytes_read, engine_->GetRound(kRound)->bytes_received);
  EXPECT_EQ(verified->contributors, 20u);
}

TEST_F(VerifyTest, ItsMemoryIsTheTenants) {
  Publish(/*keep_updates=*/true);
  engine_.options.limits.tenant_bytes_max = 200'000;  // enough for the result twice
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_THAT(engine_->VerifyRound(kRound, Never).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "TENANT_BYTES_FULL"));
}

TEST_F(VerifyTest, ItEndsWhenNobodyWaitsForIt) {
  Publish(/*keep_updates=*/true);
  EXPECT_EQ(engine_->VerifyRound(kRound, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(VerifyTest, ARoundThatIsDeletedMeanwhileIsGoneAndNotDamaged) {
  Publish(/*keep_updates=*/true);
  int asked = 0;
  const auto delete_in_between = [&] {
    if (++asked != 10) return false;
    EXPECT_TRUE(engine_->DeleteRound(kRound).ok());
    return false;
  };
  EXPECT_THAT(VerifyAgain(*result_, {.cancelled = delete_in_between}).status(),
              FailsWith(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND"));
}

TEST_F(VerifyTest, AStoreCheckComputesItAgainOnAllBackEnds) {
  Publish(/*keep_updates=*/true);
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(testing::MakeBackend("cpu"));
  backends.push_back(testing::MakeBackend("reference"));
  const auto checks = CheckStore(engine_.store(), backends);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].problem, "");
  EXPECT_EQ(checks[0].result_digest, result_->manifest.result_digest);
}

TEST_F(VerifyTest, AStoreCheckComputesAnOpenRoundOnAllBackEnds) {
  const TensorSpec spec = Sparse("t", 1000);
  engine_.Create(RoundSpec{.tensors = {spec}, .durability = Durability::kDurable});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine_
                    .Submit(TestUpdate(kRound, "c" + std::to_string(i))
                                .Add<float>(spec, {1, 500, 7 + i}, {0.1f, 0.2f, 0.3f}))
                    .ok());
  }
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(testing::MakeBackend("cpu"));
  backends.push_back(testing::MakeBackend("reference"));
  const auto checks = CheckStore(engine_.store(), backends);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].problem, "");
  EXPECT_EQ(checks[0].contributors, 3u);
  EXPECT_EQ(checks[0].result_digest, engine_.SealAndWait(kRound)->manifest.result_digest);
}

TEST_F(VerifyTest, OnlyAPublishedRoundCanBeVerified) {
  engine_.Create(RoundSpec{.tensors = {Sparse("t", 10)}, .durability = Durability::kDurable});
  EXPECT_THAT(engine_->VerifyRound(kRound, Never).status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_PUBLISHED"));
  EXPECT_THAT(engine_
                  ->CreateRound({.round_id = "m",
                                 .request_id = "",
                                 .spec = {.tensors = {Sparse("t", 10)}, .keep_updates = true}})
                  .status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
}

}  // namespace
}  // namespace sparseagg
