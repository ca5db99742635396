#include "service/store/durable_store.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/store/books.h"
#include "service/store/data_directory.h"
#include "service/store/database.h"
#include "service/store/group_commit.h"
#include "service/store/payload_files.h"
#include "service/store/store_errors.h"
#include "service/store/tables.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// What is erased in one transaction: others commit between two of them.
constexpr size_t kErasedAtOnce = 256;

struct DurableRound {
  int64_t id = 0;
  RoundRecord record;
  Books books;
};

// An update on its way into the database.
struct PendingPut {
  const UpdateRecord& record;
  std::string_view headers;
  const Placed& payload;
  absl::StatusOr<PutResult> result = absl::UnknownError("not committed");
};

// Answers what the books know; false: the update may be entered.
bool AnswerFrom(const Books& books, PendingPut& put) {
  auto known = books.Judge(put.record);
  if (known.ok() && !known->has_value()) return false;
  put.result = known.ok() ? absl::StatusOr<PutResult>(**std::move(known)) : known.status();
  return true;
}

// Two locks. `database_mutex_` is held for whole transactions; `mutex_` guards the books, which
// always show what is committed, and is held for moments only. Lock order: as named.
class DurableStore : public UpdateStore {
 public:
  explicit DurableStore(DurableStoreOptions options) : options_(std::move(options)) {}

  absl::Status Open();

  bool Supports(Durability durability) const override {
    return durability == Durability::kMemory || durability == Durability::kDurable;
  }
  absl::Status OpenRound(const RoundRecord& round) override;
  absl::StatusOr<PutResult> Put(const UpdateRecord& record, const UpdateContent& content) override;
  std::optional<UpdateRecord> Find(const std::string& round,
                                   const std::string& contributor) const override;
  absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round,
                                                       std::string_view details) override;
  absl::Status PublishRound(const std::string& round, std::string_view details,
                            std::span<const std::string_view> result) override;
  absl::Status ErasePayloads(const std::string& round) override;
  absl::Status AbortRound(const std::string& round, std::string_view details) override;
  absl::Status EraseRound(const std::string& round) override;

  std::vector<RoundRecord> Rounds() const override;
  absl::Status ReadUpdates(const std::string& round, const OnUpdate& on_update) const override;
  absl::StatusOr<std::string> ReadResult(const std::string& round) const override;

 private:
  absl::Status Load();
  absl::Status FinishErasing(const DurableRound& round);
  absl::Status DeleteLeftoverFiles();

  // Null when the round is not a durable one. The pointer stays valid while the round exists.
  const DurableRound* FindLocked(const std::string& round) const;
  // The round's row as it is now, or nullopt.
  std::optional<std::pair<int64_t, RoundRecord>> RowOf(const std::string& round) const;

  void CommitGroup(std::span<PendingPut* const> group);
  // The round's row, together with `also`, then the books. REQUIRES: database_mutex_ is held and
  // the round exists.
  absl::Status ChangePhase(
      const std::string& round, RoundPhase phase, std::string_view details,
      const std::function<absl::Status(int64_t id)>& also = [](int64_t) {
        return absl::OkStatus();
      });
  // Database and files; the books are the caller's.
  absl::Status EraseContents(int64_t round);
  absl::Status EraseUpdates(int64_t round);

  const DurableStoreOptions options_;
  std::unique_ptr<DataDirectory> directory_;
  std::unique_ptr<PayloadFiles> files_;
  std::unique_ptr<UpdateStore> memory_ = MakeMemoryStore();

  mutable std::mutex database_mutex_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Tables> tables_;

  mutable std::mutex mutex_;
  std::map<std::string, DurableRound> rounds_;

  GroupCommit<PendingPut> commits_{
      [this](std::span<PendingPut* const> group) { CommitGroup(group); }, options_.on_commit};
};

// --- Opening ---

absl::Status DurableStore::Open() {
  SPARSEAGG_ASSIGN_OR_RETURN(directory_,
                             DataDirectory::Take(options_.directory, options_.free_bytes_min));
  SPARSEAGG_ASSIGN_OR_RETURN(
      files_,
      PayloadFiles::Open(absl::StrCat(options_.directory, "/payloads"), options_.failpoints));
  SPARSEAGG_ASSIGN_OR_RETURN(database_,
                             Database::Open(absl::StrCat(options_.directory, "/store.db")));
  tables_ = std::make_unique<Tables>(*database_, *files_, options_.failpoints);
  SPARSEAGG_RETURN_IF_ERROR(options_.failpoints.Check(Failpoint::kDatabaseOpened));
  SPARSEAGG_RETURN_IF_ERROR(tables_->Prepare());
  SPARSEAGG_RETURN_IF_ERROR(tables_->Check());
  SPARSEAGG_RETURN_IF_ERROR(tables_->Checkpoint());
  files_->Sync();
  SyncFolder(options_.directory);
  SPARSEAGG_RETURN_IF_ERROR(options_.failpoints.Check(Failpoint::kFoldersSynced));
  return Load();
}

absl::Status DurableStore::Load() {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<StoredRound> stored, tables_->Rounds());
  for (const StoredRound& row : stored) {
    DurableRound round;
    round.id = row.id;
    round.record = row.record;
    bool gapless = true;
    const absl::Status read =
        tables_->ReadRecords(row.id, row.record.name, [&](UpdateRecord update) {
          gapless &= update.sequence == round.books.last_sequence() + 1;
          round.books.Enter(std::move(update));
        });
    if (!read.ok() && !absl::IsDataLoss(read)) return read;
    if (!read.ok() && round.record.damage.empty())
      round.record.damage = std::string(read.message());
    if (!gapless && round.record.damage.empty()) round.record.damage = "an update is missing";
    if (row.record.phase != RoundPhase::kOpen) round.books.Close();
    if (round.record.damage.empty()) SPARSEAGG_RETURN_IF_ERROR(FinishErasing(round));
    rounds_.emplace(row.record.name, std::move(round));
    SPARSEAGG_RETURN_IF_ERROR(options_.failpoints.Check(Failpoint::kRoundLoaded));
  }
  return DeleteLeftoverFiles();
}

absl::Status DurableStore::FinishErasing(const DurableRound& round) {
  if (round.record.phase == RoundPhase::kPublished) return EraseContents(round.id);
  if (round.record.phase == RoundPhase::kAborted) return EraseUpdates(round.id);
  return absl::OkStatus();
}

absl::Status DurableStore::DeleteLeftoverFiles() {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<uint64_t> named, tables_->Files());
  for (const uint64_t file : files_->List()) {
    if (!std::binary_search(named.begin(), named.end(), file)) files_->Delete(file);
  }
  return options_.failpoints.Check(Failpoint::kLeftoversDeleted);
}

// --- Looking ---

const DurableRound* DurableStore::FindLocked(const std::string& round) const {
  const auto found = rounds_.find(round);
  return found == rounds_.end() ? nullptr : &found->second;
}

std::optional<std::pair<int64_t, RoundRecord>> DurableStore::RowOf(const std::string& round) const {
  std::lock_guard lock(mutex_);
  const DurableRound* found = FindLocked(round);
  if (found == nullptr) return std::nullopt;
  return std::pair(found->id, found->record);
}

std::optional<UpdateRecord> DurableStore::Find(const std::string& round,
                                               const std::string& contributor) const {
  {
    std::lock_guard lock(mutex_);
    const DurableRound* found = FindLocked(round);
    if (found != nullptr) return found->books.Find(contributor);
  }
  return memory_->Find(round, contributor);
}

std::vector<RoundRecord> DurableStore::Rounds() const {
  std::vector<RoundRecord> records;
  std::lock_guard lock(mutex_);
  for (const auto& [name, round] : rounds_) records.push_back(round.record);
  return records;
}

absl::Status DurableStore::ReadUpdates(const std::string& round, const OnUpdate& on_update) const {
  const auto row = RowOf(round);
  if (!row.has_value()) return RoundNotFound(round);
  std::lock_guard lock(database_mutex_);
  return tables_->ReadUpdates(row->first, round, on_update);
}

absl::StatusOr<std::string> DurableStore::ReadResult(const std::string& round) const {
  const auto row = RowOf(round);
  if (!row.has_value()) return RoundNotFound(round);
  std::lock_guard lock(database_mutex_);
  return tables_->ReadResult(row->first);
}

// --- Rounds ---

absl::Status DurableStore::OpenRound(const RoundRecord& round) {
  if (round.durability != Durability::kDurable) {
    if (RowOf(round.name).has_value()) return RoundExists(round.name);
    return memory_->OpenRound(round);
  }
  SPARSEAGG_RETURN_IF_ERROR(directory_->CheckRoom());
  std::lock_guard database_lock(database_mutex_);
  if (RowOf(round.name).has_value()) return RoundExists(round.name);
  DurableRound opened;
  opened.record = round;
  opened.record.phase = RoundPhase::kOpen;
  opened.record.details.clear();
  SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([&] {
    auto id = tables_->InsertRound(opened.record);
    if (id.ok()) opened.id = *id;
    return id.status();
  }));
  std::lock_guard lock(mutex_);
  rounds_.emplace(round.name, std::move(opened));
  return absl::OkStatus();
}

absl::Status DurableStore::ChangePhase(const std::string& round, RoundPhase phase,
                                       std::string_view details,
                                       const std::function<absl::Status(int64_t id)>& also) {
  auto row = *RowOf(round);
  row.second.phase = phase;
  row.second.details = details;
  SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([&] {
    SPARSEAGG_RETURN_IF_ERROR(also(row.first));
    return tables_->ChangeRound(row.first, row.second);
  }));
  {
    std::lock_guard lock(mutex_);
    DurableRound& changed = rounds_.at(round);
    changed.record = std::move(row.second);
    changed.books.Close();
    if (phase == RoundPhase::kAborted) changed.books.Clear();
  }
  options_.failpoints.Pass(Failpoint::kBooksChanged);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UpdateRecord>> DurableStore::CloseRound(const std::string& round,
                                                                   std::string_view details) {
  std::unique_lock database_lock(database_mutex_);
  const auto row = RowOf(round);
  if (!row.has_value()) {
    database_lock.unlock();
    return memory_->CloseRound(round, details);
  }
  if (row->second.phase == RoundPhase::kOpen) {
    SPARSEAGG_RETURN_IF_ERROR(ChangePhase(round, RoundPhase::kClosed, details));
  }
  std::lock_guard lock(mutex_);
  return rounds_.at(round).books.Records();
}

absl::Status DurableStore::PublishRound(const std::string& round, std::string_view details,
                                        std::span<const std::string_view> result) {
  if (!RowOf(round).has_value()) return memory_->PublishRound(round, details, result);
  SPARSEAGG_ASSIGN_OR_RETURN(const Placed placed, tables_->Place(result));
  std::lock_guard database_lock(database_mutex_);
  if (!RowOf(round).has_value()) return RoundNotFound(round);  // erased meanwhile
  if (placed.file != 0) files_->Sync();
  absl::Status published = ChangePhase(round, RoundPhase::kPublished, details, [&](int64_t id) {
    return tables_->InsertResult(id, placed);
  });
  if (!published.ok() && placed.file != 0) files_->Delete(placed.file);
  return published;
}

absl::Status DurableStore::ErasePayloads(const std::string& round) {
  const auto row = RowOf(round);
  if (!row.has_value()) return memory_->ErasePayloads(round);
  const bool aborted = row->second.phase == RoundPhase::kAborted;
  return aborted ? EraseUpdates(row->first) : EraseContents(row->first);
}

absl::Status DurableStore::AbortRound(const std::string& round, std::string_view details) {
  std::unique_lock database_lock(database_mutex_);
  const auto row = RowOf(round);
  if (row.has_value()) SPARSEAGG_RETURN_IF_ERROR(ChangePhase(round, RoundPhase::kAborted, details));
  database_lock.unlock();
  if (!row.has_value()) return memory_->AbortRound(round, details);
  // The round is given up, whatever becomes of the rest.
  const absl::Status erased = EraseUpdates(row->first);
  return RetryAfterMs(erased) > 0 ? absl::OkStatus() : erased;
}

absl::Status DurableStore::EraseRound(const std::string& round) {
  const auto row = RowOf(round);
  if (!row.has_value()) return memory_->EraseRound(round);
  // An interruption leaves a round that was given up, not one that lost some of its updates.
  const RoundPhase phase = row->second.phase;
  const bool ended = phase == RoundPhase::kPublished || phase == RoundPhase::kAborted;
  SPARSEAGG_RETURN_IF_ERROR(ended ? EraseUpdates(row->first)
                                  : AbortRound(round, row->second.details));
  std::lock_guard database_lock(database_mutex_);
  SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t file, tables_->ResultFile(row->first));
  SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([&] { return tables_->DeleteRound(row->first); }));
  if (file != 0) files_->Delete(file);
  std::lock_guard lock(mutex_);
  rounds_.erase(round);
  return absl::OkStatus();
}

absl::Status DurableStore::EraseContents(int64_t round) {
  std::vector<ContentPlace> places;
  {
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(places, tables_->Contents(round));
  }
  for (size_t begin = 0; begin < places.size(); begin += kErasedAtOnce) {
    const auto chunk =
        std::span(places).subspan(begin, std::min(kErasedAtOnce, places.size() - begin));
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([&] { return tables_->DeleteContents(chunk); }));
    for (const ContentPlace& place : chunk) {
      if (place.file != 0) files_->Delete(place.file);
    }
  }
  if (places.empty()) return absl::OkStatus();
  // The log has copies of what was erased.
  std::lock_guard database_lock(database_mutex_);
  return tables_->Checkpoint();
}

absl::Status DurableStore::EraseUpdates(int64_t round) {
  SPARSEAGG_RETURN_IF_ERROR(EraseContents(round));
  std::lock_guard database_lock(database_mutex_);
  return tables_->Transact([&] { return tables_->DeleteUpdates(round); });
}

// --- Updates ---

absl::StatusOr<PutResult> DurableStore::Put(const UpdateRecord& record,
                                            const UpdateContent& content) {
  bool durable = false;
  {
    std::lock_guard lock(mutex_);
    const DurableRound* round = FindLocked(record.round);
    durable = round != nullptr;
    if (durable) {
      // What is known already needs no write.
      SPARSEAGG_ASSIGN_OR_RETURN(std::optional<PutResult> known, round->books.Judge(record));
      if (known.has_value()) return *std::move(known);
    }
  }
  if (!durable) return memory_->Put(record, content);
  SPARSEAGG_RETURN_IF_ERROR(directory_->CheckRoom());
  SPARSEAGG_ASSIGN_OR_RETURN(const Placed payload, tables_->Place(content.payload));
  PendingPut put{record, content.headers, payload};
  commits_.Run(put);
  const bool kept = put.result.ok() && put.result->outcome == PutOutcome::kAccepted;
  if (!kept && payload.file != 0) files_->Delete(payload.file);
  return std::move(put.result);
}

void DurableStore::CommitGroup(std::span<PendingPut* const> group) {
  options_.failpoints.Pass(Failpoint::kGroupTaken);
  std::lock_guard database_lock(database_mutex_);
  struct Entry {
    PendingPut* put;
    int64_t round;
    UpdateRecord record;
  };
  std::vector<Entry> entries;        // new ones
  std::vector<PendingPut*> repeats;  // of a contributor with an entry in this group
  std::map<std::string_view, uint64_t> sequences;
  std::set<std::pair<std::string_view, std::string_view>> contributors;
  bool files = false;
  for (PendingPut* put : group) {
    std::lock_guard lock(mutex_);
    const DurableRound* round = FindLocked(put->record.round);
    if (round == nullptr) {
      put->result = RoundNotFound(put->record.round);
      continue;
    }
    if (AnswerFrom(round->books, *put)) continue;
    if (!contributors.emplace(put->record.round, put->record.contributor).second) {
      repeats.push_back(put);
      continue;
    }
    uint64_t& sequence =
        sequences.try_emplace(put->record.round, round->books.last_sequence()).first->second;
    Entry& entry = entries.emplace_back(Entry{put, round->id, put->record});
    entry.record.sequence = ++sequence;
    files |= put->payload.file != 0;
  }
  if (!entries.empty()) {
    if (files) files_->Sync();
    const absl::Status committed = tables_->Transact([&] {
      for (const Entry& entry : entries) {
        SPARSEAGG_RETURN_IF_ERROR(tables_->InsertUpdate(entry.round, entry.record,
                                                        entry.put->headers, entry.put->payload));
      }
      return absl::OkStatus();
    });
    {
      std::lock_guard lock(mutex_);
      for (Entry& entry : entries) {
        if (!committed.ok()) {
          entry.put->result = committed;
          continue;
        }
        rounds_.at(entry.record.round).books.Enter(entry.record);
        entry.put->result = PutResult{PutOutcome::kAccepted, std::move(entry.record)};
      }
    }
    options_.failpoints.Pass(Failpoint::kBooksChanged);
  }
  std::lock_guard lock(mutex_);
  for (PendingPut* put : repeats) {
    if (AnswerFrom(rounds_.at(put->record.round).books, *put)) continue;
    // The first of them was not committed.
    put->result = StoreBusy("another update of this contributor failed just now; try again");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateStore>> OpenDurableStore(const DurableStoreOptions& options) {
  auto store = std::make_unique<DurableStore>(options);
  SPARSEAGG_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace sparseagg
