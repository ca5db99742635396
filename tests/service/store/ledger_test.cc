// The store's id and epoch, its tombstones, and directories that an earlier version made.
#include "service/store/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/status.h"
#include "service/store/database.h"
#include "service/store/durable_store.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::system_clock;
using testing::TemporaryFolder;

std::unique_ptr<UpdateStore> Open(const std::string& folder, bool new_epoch = true) {
  auto store = OpenDurableStore({.directory = folder, .free_bytes_min = 0, .new_epoch = new_epoch});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

TEST(LedgerTest, EveryStartIsANewEpochOfTheSameStore) {
  TemporaryFolder folder;
  const StoreEpoch first = Open(folder.path())->Epoch();
  EXPECT_EQ(first.epoch, 1u);
  EXPECT_EQ(first.store_id.size(), 32u);
  EXPECT_EQ(Open(folder.path())->Epoch(), (StoreEpoch{first.store_id, 2}));
  EXPECT_EQ(Open(folder.path(), /*new_epoch=*/false)->Epoch().epoch, 2u);
  EXPECT_EQ(Open(folder.path())->Epoch(), (StoreEpoch{first.store_id, 3}));
}

std::string Renew(const std::string& folder) {
  const auto store = OpenDurableStore(
      {.directory = folder, .free_bytes_min = 0, .new_epoch = false, .new_store_id = true});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? (*store)->Epoch().store_id : "";
}

TEST(LedgerTest, ARenewedStoreHasAnotherIdAndAllElseThatItHad) {
  TemporaryFolder folder;
  StoreEpoch first;
  {
    auto store = Open(folder.path());
    first = store->Epoch();
    for (const char* name : {"rounds/a", "rounds/b"}) {
      ASSERT_TRUE(store->OpenRound({.name = name, .durability = Durability::kDurable}).ok());
    }
    ASSERT_TRUE(store->AbortRound("rounds/b", "").ok());
    ASSERT_TRUE(store->RetireRound({.round = "rounds/b"}).ok());
  }
  const std::string renewed = Renew(folder.path());
  EXPECT_EQ(renewed.size(), 32u);
  EXPECT_NE(renewed, first.store_id);
  EXPECT_EQ(Open(folder.path(), /*new_epoch=*/false)->Epoch(), (StoreEpoch{renewed, 1}));
  const auto store = Open(folder.path());
  EXPECT_EQ(store->Epoch(), (StoreEpoch{renewed, 2}));
  ASSERT_EQ(store->Rounds().size(), 1u);
  EXPECT_EQ(store->Rounds()[0].name, "rounds/a");
  EXPECT_EQ(store->Tombstones().size(), 1u);
}

TEST(LedgerTest, AnotherDirectoryOrProcessIsAnotherStore) {
  TemporaryFolder one;
  TemporaryFolder other;
  EXPECT_NE(Open(one.path())->Epoch().store_id, Open(other.path())->Epoch().store_id);
  EXPECT_NE(MakeMemoryStore()->Epoch().store_id, MakeMemoryStore()->Epoch().store_id);
  EXPECT_EQ(MakeMemoryStore()->Epoch().epoch, 1u);
}

TEST(LedgerTest, ATombstoneStaysWhenItsRoundGoesAndUntilItIsForgotten) {
  TemporaryFolder folder;
  const system_clock::time_point noon(hours(500'000));
  auto store = Open(folder.path());
  for (const char* name : {"rounds/a", "rounds/b"}) {
    ASSERT_TRUE(store->OpenRound({.name = name, .durability = Durability::kDurable}).ok());
    ASSERT_TRUE(store->CloseRound(name, "").ok());
    ASSERT_TRUE(store->PublishRound(name, "", {}, false).ok());
  }
  ASSERT_TRUE(store->RetireRound({"rounds/a", RoundPhase::kPublished, noon}).ok());
  ASSERT_TRUE(store->RetireRound({"rounds/b", RoundPhase::kAborted, noon + hours(1)}).ok());
  store.reset();
  store = Open(folder.path());
  EXPECT_TRUE(store->Rounds().empty());
  const std::vector<Tombstone> tombstones = store->Tombstones();
  ASSERT_EQ(tombstones.size(), 2u);
  EXPECT_EQ(tombstones[0].round, "rounds/a");
  EXPECT_EQ(tombstones[0].ended, RoundPhase::kPublished);
  EXPECT_EQ(tombstones[0].erased, noon);
  EXPECT_FALSE(tombstones[0].damaged);
  EXPECT_EQ(tombstones[1].ended, RoundPhase::kAborted);
  ASSERT_TRUE(store->ForgetTombstones(noon + hours(1)).ok());
  store.reset();
  ASSERT_EQ(Open(folder.path())->Tombstones().size(), 1u);
}

TEST(LedgerTest, DamageOfATombstoneShows) {
  TemporaryFolder folder;
  {
    auto store = Open(folder.path());
    ASSERT_TRUE(store->OpenRound({.name = "rounds/a", .durability = Durability::kDurable}).ok());
    ASSERT_TRUE(store->AbortRound("rounds/a", "").ok());
    ASSERT_TRUE(store->RetireRound({.round = "rounds/a"}).ok());
  }
  {
    const auto database = Database::Open(folder.path() + "/store.db");
    ASSERT_TRUE((*database)->Run("UPDATE tombstones SET round = 'rounds/b'").ok());
  }
  const auto tombstones = Open(folder.path())->Tombstones();
  ASSERT_EQ(tombstones.size(), 1u);
  EXPECT_TRUE(tombstones[0].damaged);
}

// The content of a directory that version 1 left when it was killed, as SQL.
void MakeVersion1(const std::string& folder) {
  std::ifstream file(SPARSEAGG_V1_STORE);
  const std::string sql{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(sql.empty());
  const auto database = Database::Open(folder + "/store.db");
  ASSERT_TRUE(database.ok()) << database.status();
  const absl::Status made = (*database)->Run(sql.c_str());
  ASSERT_TRUE(made.ok()) << made;
}

TEST(LedgerTest, AStoreThatIsRenewedBeforeItsFirstStartKeepsTheNewId) {
  TemporaryFolder folder;
  MakeVersion1(folder.path());
  const std::string renewed = Renew(folder.path());
  EXPECT_EQ(Open(folder.path())->Epoch(), (StoreEpoch{renewed, 1}));
}

TEST(LedgerTest, ADirectoryOfVersion1OpensWithAllThatItHolds) {
  TemporaryFolder folder;
  MakeVersion1(folder.path());
  for (const uint64_t epoch : {1u, 2u}) {
    const auto store = Open(folder.path());
    EXPECT_EQ(store->Epoch().epoch, epoch);
    const std::vector<RoundRecord> rounds = store->Rounds();
    ASSERT_EQ(rounds.size(), 3u);
    for (const RoundRecord& round : rounds) EXPECT_EQ(round.damage, "") << round.name;
    EXPECT_EQ(rounds[0].phase, RoundPhase::kAborted);
    EXPECT_EQ(rounds[1].phase, RoundPhase::kOpen);
    EXPECT_EQ(rounds[2].phase, RoundPhase::kPublished);
    int updates = 0;
    const auto count = [&](const UpdateRecord&, std::string_view, std::string_view) {
      ++updates;
      return absl::OkStatus();
    };
    ASSERT_TRUE(store->ReadUpdates("rounds/open", count).ok());
    EXPECT_EQ(updates, 2);
    EXPECT_TRUE(store->ReadResult("rounds/published").ok());
    EXPECT_TRUE(store->Tombstones().empty());
  }
}

}  // namespace
}  // namespace sparseagg
