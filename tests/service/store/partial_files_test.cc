// Payloads that arrive in chunks: which bytes remain after any kind of end, and that no files are
// left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "service/store/durable_store.h"
#include "service/store/partial_records.h"
#include "tests/support/interpose.h"
#include "tests/support/temporary_folder.h"

namespace {

// The errno with which syncs of files fail; later syncs would succeed without the lost data.
int sync_error = 0;

}  // namespace

extern "C" int fdatasync(int fd) {
  if (sync_error == 0) return sparseagg::testing::Next<decltype(fdatasync)>("fdatasync")(fd);
  errno = std::exchange(sync_error, 0);
  return -1;
}

namespace sparseagg {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCheckpoint = 8 * kMiB;

class PartialFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = Open(folder_.path());
    ASSERT_TRUE(store_->OpenRound({.name = "rounds/r", .durability = Durability::kDurable}).ok());
    std::mt19937_64 random(5);
    for (char& byte : bytes_) byte = static_cast<char>(random());
  }

  static std::unique_ptr<UpdateStore> Open(const std::string& folder) {
    auto opened = OpenDurableStore({.directory = folder, .free_bytes_min = 0});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  void Restart() {
    store_.reset();
    store_ = Open(folder_.path());
  }
  // Opens a copy of the data directory as a kill would leave it now, in place of the first.
  void Crash() {
    fs::copy(folder_.path(), crashed_.path(), fs::copy_options::recursive);
    fs::remove(crashed_.path() + "/LOCK");
    killed_ = std::exchange(store_, Open(crashed_.path()));
  }

  PartialIdentity Identity() const {
    return {.round = "rounds/r",
            .contributor = "a",
            .update_id = "u",
            .description = "headers",
            .total_bytes = bytes_.size()};
  }
  std::unique_ptr<UploadPayload> Take() { return Take(Identity()); }
  std::unique_ptr<UploadPayload> Take(const PartialIdentity& identity) {
    auto taken = store_->OpenUploadPayload(identity);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? *std::move(taken) : nullptr;
  }
  // Appends in chunks of odd sizes.
  void Fill(UploadPayload& payload, uint64_t end) const {
    while (payload.bytes() < end) {
      const uint64_t size = std::min<uint64_t>(999'999, end - payload.bytes());
      ASSERT_TRUE(payload.Append({bytes_.data() + payload.bytes(), size}).ok());
    }
  }
  absl::StatusOr<PutResult> Put(UploadPayload& payload) {
    return store_->Put(
        {.round = "rounds/r", .contributor = "a", .update_id = "u", .digest = std::string(32, 'd')},
        {.headers = "h", .stored = &payload});
  }
  std::vector<std::string> FilesOf(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder + "/payloads")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  testing::TemporaryFolder folder_;
  testing::TemporaryFolder crashed_;
  std::unique_ptr<UpdateStore> killed_;
  std::unique_ptr<UpdateStore> store_;
  std::string bytes_ = std::string(3 * kCheckpoint, '\0');
};

TEST_F(PartialFilesTest, OfAnOpenRoundAreNotThoseOfOneOfItsNameBefore) {
  Fill(*Take(), 2 * kMiB);
  store_->DropUploadPayloads("rounds/r");
  EXPECT_EQ(Take()->bytes(), 2 * kMiB);
  ASSERT_TRUE(store_->CloseRound("rounds/r", "").ok());
  store_->DropUploadPayloads("rounds/r");
  EXPECT_TRUE(FilesOf(folder_.path()).empty());
}

// The sum would be of the bytes of both rounds.
TEST_F(PartialFilesTest, OfARoundThatWasErasedAreNotContinuedInTheNextOneOfItsName) {
  for (const bool restarts : {false, true}) {
    Fill(*Take(), 2 * kMiB);
    ASSERT_TRUE(store_->AbortRound("rounds/r", "").ok());
    ASSERT_TRUE(store_->EraseRound("rounds/r").ok());
    ASSERT_TRUE(store_->OpenRound({.name = "rounds/r", .durability = Durability::kDurable}).ok());
    if (restarts) Restart();
    auto payload = Take();
    EXPECT_EQ(payload->bytes(), 0u) << "restarts " << restarts;
    Fill(*payload, kMiB);
    payload.reset();
    if (restarts) Restart();
    EXPECT_EQ(Take()->bytes(), kMiB) << "its own are";
  }
}

TEST_F(PartialFilesTest, BecomesTheUpdateAsItIs) {
  auto payload = Take();
  Fill(*payload, bytes_.size());
  EXPECT_EQ(*payload->View(), bytes_);
  EXPECT_THAT(FilesOf(folder_.path()), ::testing::ElementsAre("1", "1.part"));
  ASSERT_TRUE(Put(*payload).ok());
  payload->Discard();
  payload.reset();
  EXPECT_THAT(FilesOf(folder_.path()), ::testing::ElementsAre("1"));
  Restart();
  int updates = 0;
  ASSERT_TRUE(store_
                  ->ReadUpdates("rounds/r",
                                [&](const UpdateRecord& record, std::string_view headers,
                                    std::string_view content) {
                                  ++updates;
                                  EXPECT_EQ(record.contributor, "a");
                                  EXPECT_EQ(headers, "h");
                                  EXPECT_EQ(content, bytes_);
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_EQ(updates, 1);
}

TEST_F(PartialFilesTest, ShortPayloadsAndThoseOfMemoryRoundsStayInMemory) {
  PartialIdentity identity = Identity();
  identity.total_bytes = 1000;
  EXPECT_EQ(Take(identity), nullptr);
  ASSERT_TRUE(store_->OpenRound({.name = "rounds/m", .durability = Durability::kMemory}).ok());
  identity = Identity();
  identity.round = "rounds/m";
  EXPECT_EQ(Take(identity), nullptr);
  EXPECT_TRUE(FilesOf(folder_.path()).empty());
}

TEST_F(PartialFilesTest, AnOrderlyEndLosesNothing) {
  auto payload = Take();
  Fill(*payload, 1'234'567);
  payload.reset();
  Restart();
  payload = Take();
  EXPECT_EQ(payload->bytes(), 1'234'567u);
  Fill(*payload, bytes_.size());
  EXPECT_EQ(*payload->View(), bytes_);
}

TEST_F(PartialFilesTest, AKillLosesWhatCameSinceTheLastCheckpoint) {
  auto payload = Take();
  Fill(*payload, kCheckpoint + 5 * kMiB);
  Crash();
  auto resumed = Take();
  EXPECT_GE(resumed->bytes(), kCheckpoint);
  EXPECT_LE(resumed->bytes(), kCheckpoint + kMiB);
  EXPECT_EQ(*resumed->View(), bytes_.substr(0, resumed->bytes()));
  Fill(*resumed, bytes_.size());
  ASSERT_TRUE(Put(*resumed).ok());
}

TEST_F(PartialFilesTest, GoesOnBeforeAByteThatChanged) {
  auto payload = Take();
  Fill(*payload, 2 * kCheckpoint + 3 * kMiB);
  payload.reset();
  store_.reset();
  {
    std::fstream file(folder_.path() + "/payloads/1",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kCheckpoint + 2 * kMiB));
    file.put(static_cast<char>(~bytes_[kCheckpoint + 2 * kMiB]));
  }
  Restart();
  payload = Take();
  EXPECT_GE(payload->bytes(), kCheckpoint);
  EXPECT_LT(payload->bytes(), kCheckpoint + 2 * kMiB);
  Fill(*payload, bytes_.size());
  EXPECT_EQ(*payload->View(), bytes_);
  payload.reset();
  Restart();
  EXPECT_EQ(Take()->bytes(), bytes_.size()) << "checkpoints after the damage count";
}

TEST_F(PartialFilesTest, AnotherUpdateOfTheSameIdBeginsAnew) {
  auto payload = Take();
  Fill(*payload, 2 * kMiB);
  payload.reset();
  PartialIdentity other = Identity();
  other.description = "other headers";
  payload = Take(other);
  EXPECT_EQ(payload->bytes(), 0u);
  EXPECT_TRUE(FilesOf(folder_.path()).empty());
}

// Linux marks the pages of a failed sync clean, so that the next sync succeeds without them. Once,
// an update was acknowledged that a power cut then lost.
TEST_F(PartialFilesTest, NoByteIsTrustedAfterASyncThatFailed) {
  const auto expect_lost = [this](const absl::Status& status) {
    EXPECT_EQ(ErrorReason(status), "UPLOAD_LOST") << status;
    EXPECT_GT(RetryAfterMs(status), 0u);
    EXPECT_TRUE(FilesOf(folder_.path()).empty());
  };
  auto payload = Take();
  Fill(*payload, kCheckpoint - 10);
  sync_error = ENOSPC;
  expect_lost(payload->Append({bytes_.data(), 20}));
  payload.reset();

  payload = Take();
  ASSERT_EQ(payload->bytes(), 0u);
  Fill(*payload, 2 * kMiB);
  payload.reset();
  sync_error = EDQUOT;
  expect_lost(store_->OpenUploadPayload(Identity()).status());

  payload = Take();
  ASSERT_EQ(payload->bytes(), 0u);
  Fill(*payload, bytes_.size());
  sync_error = ENOSPC;
  expect_lost(Put(*payload).status());
  EXPECT_FALSE(store_->Find("rounds/r", "a").has_value());
  payload.reset();

  payload = Take();
  Fill(*payload, bytes_.size());
  EXPECT_TRUE(Put(*payload).ok());
}

TEST_F(PartialFilesTest, OneHasItAtATime) {
  auto payload = Take();
  EXPECT_EQ(ErrorReason(store_->OpenUploadPayload(Identity()).status()), "STORE_BUSY");
  payload.reset();
  EXPECT_NE(Take(), nullptr);
}

TEST_F(PartialFilesTest, NothingStaysOfWhatNobodyWants) {
  using std::chrono::steady_clock;
  const auto fill = [this] {
    auto payload = Take();
    Fill(*payload, 2 * kMiB);
    return payload;
  };
  fill()->Discard();
  EXPECT_TRUE(FilesOf(folder_.path()).empty()) << "discarded";
  fill();
  store_->DropPartialsUnusedSince(steady_clock::now() - std::chrono::hours(1));
  EXPECT_EQ(FilesOf(folder_.path()).size(), 2u) << "used a moment ago";
  store_->DropPartialsUnusedSince(steady_clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(FilesOf(folder_.path()).empty()) << "unused";
  fill();
  store_->DropUploadPayloads("rounds/other");
  EXPECT_EQ(FilesOf(folder_.path()).size(), 2u);
  ASSERT_TRUE(store_->CloseRound("rounds/r", "").ok());
  store_->DropUploadPayloads("rounds/r");
  EXPECT_TRUE(FilesOf(folder_.path()).empty()) << "of the round";
  fill();
  Restart();
  EXPECT_TRUE(FilesOf(folder_.path()).empty()) << "of a round that is closed when the store opens";
}

TEST(PartialRecordsTest, ReadsWhatWasWritten) {
  const PartialIdentity identity = {.round = "r",
                                    .contributor = std::string("a\0b", 3),
                                    .update_id = "",
                                    .description = std::string(100'000, 'x'),
                                    .total_bytes = 1000};
  std::string text = IdentityRecord(identity);
  text += CheckpointRecord({.bytes = 10, .crc32c = 1});
  text += CheckpointRecord({.bytes = 1000, .crc32c = 2});
  const PartialRecord record = ReadPartialRecord(text);
  ASSERT_TRUE(record.identity.has_value());
  EXPECT_EQ(*record.identity, identity);
  ASSERT_EQ(record.checkpoints.size(), 2u);
  EXPECT_EQ(record.checkpoints[1].bytes, 1000u);
  EXPECT_EQ(record.checkpoints[1].crc32c, 2u);
  EXPECT_EQ(record.checkpoints[1].end, text.size());
}

TEST(PartialRecordsTest, DamageEndsWhatCounts) {
  const PartialIdentity identity = {
      .round = "rounds/r", .contributor = "a", .update_id = "u", .total_bytes = 1000};
  std::string text = IdentityRecord(identity);
  std::vector<size_t> ends = {text.size()};
  for (const uint64_t bytes : {10, 20, 30}) {
    text += CheckpointRecord({.bytes = bytes, .crc32c = 7});
    ends.push_back(text.size());
  }
  const auto expect_prefix = [&](const std::string& damaged, size_t at) {
    const PartialRecord record = ReadPartialRecord(damaged);
    EXPECT_EQ(record.identity.has_value(), at >= ends[0]);
    size_t whole = 0;
    while (whole < 3 && ends[whole + 1] <= at) ++whole;
    EXPECT_EQ(record.checkpoints.size(), at >= ends[0] ? whole : 0) << "at " << at;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    expect_prefix(text.substr(0, at), at);
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      expect_prefix(flipped, at);
    }
  }
}

}  // namespace
}  // namespace sparseagg
