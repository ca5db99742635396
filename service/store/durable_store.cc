#include "service/store/durable_store.h"

#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/begin_epoch.h"
#include "service/store/database.h"
#include "service/store/eraser.h"
#include "service/store/files/data_directory.h"
#include "service/store/files/partial_files.h"
#include "service/store/files/payload_files.h"
#include "service/store/group_commit.h"
#include "service/store/ledger.h"
#include "service/store/put_group.h"
#include "service/store/schema.h"
#include "service/store/store_errors.h"
#include "service/store/store_reader.h"
#include "service/store/tables.h"

namespace sparseagg {
namespace {

struct DurableRound {
  int64_t id = 0;
  RoundRecord record;
  AcceptedUpdates accepted;
};

// There are two locks. `database_mutex_` is held for whole transactions. `mutex_` guards the rounds
// in memory, which always show what is committed, and is held only briefly. Lock order:
// database_mutex_, mutex_.
class DurableStoreImpl : public DurableStore {
 public:
  explicit DurableStoreImpl(DurableStoreOptions options) : options_(std::move(options)) {}

  absl::Status Open();

  bool Supports(Durability durability) const override {
    return durability == Durability::kMemory || durability == Durability::kDurable;
  }
  const StoreEpoch& Epoch() const override { return epoch_; }
  absl::Status OpenRound(const RoundRecord& round) override;
  absl::Status SetRoundDetails(const std::string& round, std::string_view details) override;
  absl::StatusOr<PutResult> Put(UpdateRecord record, const UpdateContent& content) override;
  absl::StatusOr<std::unique_ptr<UploadPayload>> OpenUploadPayload(
      const PartialIdentity& identity) override;
  void DropUploadPayloads(const std::string& round) override {
    partials_->DropRound(round, [&] {
      const auto found = FindRound(round);
      return found.has_value() && found->phase == RoundPhase::kOpen;
    });
  }
  void DropPartialsUnusedSince(std::chrono::steady_clock::time_point time) override {
    partials_->DropUnusedSince(time);
  }
  std::optional<UpdateRecord> Find(const std::string& round,
                                   const std::string& contributor) const override;
  absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round,
                                                       std::string_view details) override;
  absl::Status PublishRound(const std::string& round, std::string_view details,
                            std::span<const std::string_view> result, bool keep_updates) override;
  absl::Status ErasePayloads(const std::string& round) override;
  absl::Status AbortRound(const std::string& round, std::string_view details) override;
  absl::Status EraseRound(const std::string& round) override { return Erase(round, nullptr); }
  absl::Status RetireRound(const Tombstone& tombstone) override {
    return Erase(tombstone.round, &tombstone);
  }
  absl::Status EraseLeftovers() override { return eraser_->EraseLeftovers(); }
  void StopErasing() override { eraser_->Stop(); }
  void CheckStillPresent() const override { directory_->CheckStillPresent(); }
  absl::Status ForgetTombstones(std::chrono::system_clock::time_point erased_before) override;

  std::vector<RoundRecord> Rounds() const override;
  std::vector<Tombstone> Tombstones() const override { return tombstones_; }
  absl::Status PutTaskRows(std::span<const TaskRow> rows, bool more_work) override;
  absl::Status ReadTaskRows(std::string_view prefix,
                            const std::function<void(TaskRow)>& on_row) const override {
    std::lock_guard database_lock(database_mutex_);
    return task_rows_->Read(prefix, on_row);
  }
  absl::Status ReadUpdates(const std::string& round, const OnUpdate& on_update) const override {
    return reader_->ReadUpdates(round, on_update);
  }
  absl::StatusOr<std::string> ReadResult(const std::string& round) const override {
    return reader_->ReadResult(round);
  }

 private:
  absl::Status Load();
  // Deletes the files that no row names, except for partial payloads of open rounds.
  absl::Status DeleteLeftoverFiles();

  // Returns null if there is no such durable round. The pointer stays valid while the round exists.
  const DurableRound* FindLocked(const std::string& round) const;
  // Returns the current row number and record of a round, or nullopt.
  std::optional<std::pair<int64_t, RoundRecord>> RowOf(const std::string& round) const;
  // Returns what the reader needs to know of a round for each update that it reads.
  std::optional<StoreReader::RoundRow> FindRound(const std::string& round) const;

  void CommitGroup(std::span<PendingCommit* const> commits);
  // Changes the round's row and runs `also` in one transaction, then changes the round in memory.
  // REQUIRES: database_mutex_ is held and the round exists.
  absl::Status ChangePhase(
      const std::string& round, RoundPhase phase, std::string_view details,
      const std::function<absl::Status(int64_t id)>& also = [](int64_t) {
        return absl::OkStatus();
      });
  absl::Status Erase(const std::string& round, const Tombstone* tombstone);

  const DurableStoreOptions options_;
  std::unique_ptr<DataDirectory> directory_;
  std::unique_ptr<PayloadFiles> files_;
  std::unique_ptr<PartialFiles> partials_;
  std::unique_ptr<UpdateStore> memory_ = MakeMemoryStore();

  mutable std::mutex database_mutex_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<TaskRowTable> task_rows_;
  std::unique_ptr<Eraser> eraser_;
  std::unique_ptr<StoreReader> reader_;

  // The state at the opening.
  StoreEpoch epoch_;
  std::vector<Tombstone> tombstones_;

  mutable std::mutex mutex_;
  std::map<std::string, DurableRound> rounds_;

  GroupCommit<PendingCommit> commits_{
      [this](std::span<PendingCommit* const> commits) { CommitGroup(commits); },
      options_.on_commit};
};

// --- Opening ---

absl::Status DurableStoreImpl::Open() {
  SPARSEAGG_ASSIGN_OR_RETURN(directory_,
                             DataDirectory::Take(options_.directory, options_.free_bytes_min));
  SPARSEAGG_ASSIGN_OR_RETURN(
      files_,
      PayloadFiles::Open(absl::StrCat(options_.directory, "/payloads"), options_.failpoints));
  partials_ = std::make_unique<PartialFiles>(
      *files_, options_.checkpoint_bytes, [this] { return directory_->CheckFreeSpace(); },
      options_.failpoints);
  SPARSEAGG_ASSIGN_OR_RETURN(database_,
                             Database::Open(absl::StrCat(options_.directory, "/store.db")));
  tables_ = std::make_unique<Tables>(*database_, *files_, options_.failpoints,
                                     [this] { directory_->CheckStillPresent(); });
  ledger_ = std::make_unique<Ledger>(*database_);
  task_rows_ = std::make_unique<TaskRowTable>(*database_);
  eraser_ = std::make_unique<Eraser>(database_mutex_, *tables_, *files_);
  reader_ = std::make_unique<StoreReader>(
      database_mutex_, *tables_, [this](const std::string& round) { return FindRound(round); });
  SPARSEAGG_RETURN_IF_ERROR(options_.failpoints.Check(Failpoint::kDatabaseOpened));
  SPARSEAGG_RETURN_IF_ERROR(PrepareSchema(*database_));
  SPARSEAGG_RETURN_IF_ERROR(tables_->Check());
  SPARSEAGG_ASSIGN_OR_RETURN(epoch_, ledger_->LastEpoch());
  if (options_.new_store_id) {
    SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([this] { return ledger_->RenewId(epoch_); }));
  }
  SPARSEAGG_RETURN_IF_ERROR(options_.new_epoch ? BeginEpoch(*tables_, *ledger_, *directory_, epoch_)
                                               : tables_->Checkpoint());
  files_->Sync();
  SyncFolder(options_.directory);
  constexpr const char* kPinned[] = {"store.db", "store.db-wal", "payloads"};
  directory_->Pin(kPinned);
  SPARSEAGG_RETURN_IF_ERROR(options_.failpoints.Check(Failpoint::kFoldersSynced));
  SPARSEAGG_RETURN_IF_ERROR(Load());
  eraser_->EnablePacing();  // until now, only the start used the disk
  return absl::OkStatus();
}

absl::Status DurableStoreImpl::Load() {
  SPARSEAGG_ASSIGN_OR_RETURN(tombstones_, ledger_->Tombstones());
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<StoredRound> stored, tables_->Rounds());
  for (const StoredRound& row : stored) {
    DurableRound round{.id = row.id, .record = row.record, .accepted = {}};
    const RoundPhase phase = round.record.phase;
    if (phase != RoundPhase::kAborted && phase != RoundPhase::kDeleted) {
      SPARSEAGG_RETURN_IF_ERROR(
          LoadAcceptedUpdates(*tables_, round.id, round.record, round.accepted));
    }
    if (phase != RoundPhase::kOpen) round.accepted.Close();
    const bool trusted = round.record.damage.empty();
    if (trusted && !HasUpdates(phase)) eraser_->AddLeftover({row.id, phase});
    if (!trusted || phase != RoundPhase::kDeleted) {
      rounds_.emplace(row.record.name, std::move(round));
    }
    SPARSEAGG_RETURN_IF_ERROR(options_.failpoints.Check(Failpoint::kRoundLoaded));
  }
  const absl::Status erased = eraser_->EraseLeftovers();
  if (!erased.ok() && RetryAfterMs(erased) == 0) return erased;
  return DeleteLeftoverFiles();
}

absl::Status DurableStoreImpl::DeleteLeftoverFiles() {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<uint64_t> named, tables_->Files());
  if (!named.empty()) files_->SkipTo(named.back());
  partials_->DeleteLeftovers(named, [&](const std::string& round) {
    return rounds_.contains(round) && rounds_.at(round).record.phase == RoundPhase::kOpen;
  });
  return options_.failpoints.Check(Failpoint::kLeftoversDeleted);
}

// --- Look-ups ---

const DurableRound* DurableStoreImpl::FindLocked(const std::string& round) const {
  const auto found = rounds_.find(round);
  return found == rounds_.end() ? nullptr : &found->second;
}

std::optional<std::pair<int64_t, RoundRecord>> DurableStoreImpl::RowOf(
    const std::string& round) const {
  std::lock_guard lock(mutex_);
  const DurableRound* found = FindLocked(round);
  if (found == nullptr) return std::nullopt;
  return std::pair(found->id, found->record);
}

std::optional<StoreReader::RoundRow> DurableStoreImpl::FindRound(const std::string& round) const {
  std::lock_guard lock(mutex_);
  const DurableRound* found = FindLocked(round);
  if (found == nullptr) return std::nullopt;
  return StoreReader::RoundRow{found->id, found->record.phase};
}

std::optional<UpdateRecord> DurableStoreImpl::Find(const std::string& round,
                                                   const std::string& contributor) const {
  {
    std::lock_guard lock(mutex_);
    const DurableRound* found = FindLocked(round);
    if (found != nullptr) return found->accepted.Find(contributor);
  }
  return memory_->Find(round, contributor);
}

std::vector<RoundRecord> DurableStoreImpl::Rounds() const {
  std::vector<RoundRecord> records;
  std::lock_guard lock(mutex_);
  for (const auto& [name, round] : rounds_) records.push_back(round.record);
  return records;
}

// --- Rounds ---

absl::Status DurableStoreImpl::OpenRound(const RoundRecord& round) {
  if (round.durability != Durability::kDurable) {
    if (RowOf(round.name).has_value()) return RoundExists(round.name);
    return memory_->OpenRound(round);
  }
  SPARSEAGG_RETURN_IF_ERROR(directory_->CheckFreeSpace());
  std::lock_guard database_lock(database_mutex_);
  if (RowOf(round.name).has_value()) return RoundExists(round.name);
  DurableRound opened;
  opened.record = round;
  opened.record.phase = RoundPhase::kOpen;
  SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([&] {
    auto id = tables_->InsertRound(opened.record);
    if (id.ok()) opened.id = *id;
    return id.status();
  }));
  std::lock_guard lock(mutex_);
  rounds_.emplace(round.name, std::move(opened));
  return absl::OkStatus();
}

absl::Status DurableStoreImpl::SetRoundDetails(const std::string& round, std::string_view details) {
  if (!RowOf(round).has_value()) return absl::OkStatus();
  std::lock_guard database_lock(database_mutex_);
  const auto row = RowOf(round);
  if (!row.has_value() || row->second.phase != RoundPhase::kOpen) return absl::OkStatus();
  return ChangePhase(round, RoundPhase::kOpen, details);
}

absl::Status DurableStoreImpl::ChangePhase(const std::string& round, RoundPhase phase,
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
    if (phase != RoundPhase::kOpen) changed.accepted.Close();
    if (phase == RoundPhase::kAborted) changed.accepted.Clear();
  }
  options_.failpoints.Pass(Failpoint::kMemoryUpdated);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UpdateRecord>> DurableStoreImpl::CloseRound(const std::string& round,
                                                                       std::string_view details) {
  // Rounds in memory do not wait for the disk.
  if (!RowOf(round).has_value()) return memory_->CloseRound(round, details);
  std::lock_guard database_lock(database_mutex_);
  const auto row = RowOf(round);
  if (!row.has_value()) return RoundNotFound(round);  // erased concurrently
  if (row->second.phase == RoundPhase::kOpen) {
    SPARSEAGG_RETURN_IF_ERROR(ChangePhase(round, RoundPhase::kClosed, details));
  }
  std::lock_guard lock(mutex_);
  return rounds_.at(round).accepted.Records();
}

absl::Status DurableStoreImpl::PublishRound(const std::string& round, std::string_view details,
                                            std::span<const std::string_view> result,
                                            bool keep_updates) {
  if (!RowOf(round).has_value()) {
    return memory_->PublishRound(round, details, result, keep_updates);
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const BlobRef blob, tables_->StoreBlob(result));
  std::lock_guard database_lock(database_mutex_);
  if (!RowOf(round).has_value()) return RoundNotFound(round);  // erased concurrently
  if (blob.file != 0) files_->Sync();
  const RoundPhase phase =
      keep_updates ? RoundPhase::kPublishedWithUpdates : RoundPhase::kPublished;
  absl::Status published = ChangePhase(round, phase, details,
                                       [&](int64_t id) { return tables_->InsertResult(id, blob); });
  if (!published.ok() && blob.file != 0) files_->Delete(blob.file);
  return published;
}

absl::Status DurableStoreImpl::ErasePayloads(const std::string& round) {
  return eraser_->Erase([&]() -> std::optional<Eraser::Leftover> {
    const auto found = FindRound(round);
    if (!found.has_value() || HasUpdates(found->phase)) return std::nullopt;  // still needed
    return Eraser::Leftover{found->round, found->phase};
  });
}

absl::Status DurableStoreImpl::AbortRound(const std::string& round, std::string_view details) {
  if (!RowOf(round).has_value()) return memory_->AbortRound(round, details);
  std::lock_guard database_lock(database_mutex_);
  if (!RowOf(round).has_value()) return RoundNotFound(round);  // erased concurrently
  return ChangePhase(round, RoundPhase::kAborted, details);
}

absl::Status DurableStoreImpl::Erase(const std::string& round, const Tombstone* tombstone) {
  if (!RowOf(round).has_value()) return memory_->EraseRound(round);
  std::lock_guard database_lock(database_mutex_);
  const auto row = RowOf(round);
  if (!row.has_value()) return RoundNotFound(round);  // erased concurrently
  SPARSEAGG_RETURN_IF_ERROR(tables_->Transact([&] {
    if (tombstone != nullptr) SPARSEAGG_RETURN_IF_ERROR(ledger_->InsertTombstone(*tombstone));
    return tables_->MarkDeleted(row->first);
  }));
  std::lock_guard lock(mutex_);
  rounds_.erase(round);
  eraser_->AddLeftover({row->first, RoundPhase::kDeleted});
  return absl::OkStatus();
}

absl::Status DurableStoreImpl::ForgetTombstones(
    std::chrono::system_clock::time_point erased_before) {
  std::lock_guard database_lock(database_mutex_);
  return tables_->Transact([&] { return ledger_->DeleteTombstones(erased_before); });
}

// --- Updates ---

absl::StatusOr<PutResult> DurableStoreImpl::Put(UpdateRecord record, const UpdateContent& content) {
  bool durable = false;
  std::optional<PutResult> known;  // decided without a write
  {
    std::lock_guard lock(mutex_);
    const DurableRound* round = FindLocked(record.round);
    durable = round != nullptr;
    if (durable) {
      SPARSEAGG_ASSIGN_OR_RETURN(known, round->accepted.Classify(record, content.contributors_max));
    }
  }
  if (known.has_value()) {
    directory_->CheckStillPresent();
    return *std::move(known);
  }
  if (!durable) return memory_->Put(std::move(record), content);
  SPARSEAGG_RETURN_IF_ERROR(directory_->CheckFreeSpace());
  SPARSEAGG_ASSIGN_OR_RETURN(const BlobRef payload, content.stored == nullptr
                                                        ? tables_->StoreBlob(content.payload)
                                                        : partials_->Complete(*content.stored));
  PendingPut put{record, content.headers, content.contributors_max, payload};
  PendingCommit commit{.put = &put};
  commits_.Run(commit);
  const bool kept = put.result.ok() && put.result->outcome == PutOutcome::kAccepted;
  if (kept && content.stored != nullptr) partials_->HandOver(*content.stored);
  if (!kept && content.stored == nullptr && payload.file != 0) files_->Delete(payload.file);
  return std::move(put.result);
}

absl::StatusOr<std::unique_ptr<UploadPayload>> DurableStoreImpl::OpenUploadPayload(
    const PartialIdentity& identity) {
  const auto row = RowOf(identity.round);
  if (!row.has_value() || identity.total_bytes <= kInlineBytesMax) return nullptr;
  return partials_->Take(identity, row->first);
}

void DurableStoreImpl::CommitGroup(std::span<PendingCommit* const> commits) {
  options_.failpoints.Pass(Failpoint::kGroupTaken);
  std::lock_guard database_lock(database_mutex_);
  const auto find = [this](const std::string& name) {
    const auto found = rounds_.find(name);
    return found == rounds_.end() ? PutGroup::Round{}
                                  : PutGroup::Round{found->second.id, &found->second.accepted};
  };
  PutGroup group;
  {
    std::lock_guard lock(mutex_);
    group.Classify(commits, find);
  }
  if (group.has_files()) files_->Sync();
  absl::Status committed;
  if (!group.empty()) {
    committed = tables_->Transact([&] { return group.Write(*tables_, *task_rows_); });
  }
  {
    std::lock_guard lock(mutex_);
    group.Finish(committed, find);
  }
  if (!group.empty()) options_.failpoints.Pass(Failpoint::kMemoryUpdated);
}

absl::Status DurableStoreImpl::PutTaskRows(std::span<const TaskRow> rows, bool more_work) {
  if (more_work) SPARSEAGG_RETURN_IF_ERROR(directory_->CheckFreeSpace());
  PendingRows pending{rows};
  PendingCommit commit{.rows = &pending};
  commits_.Run(commit);
  return pending.result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurableStore>> OpenDurableStore(const DurableStoreOptions& options) {
  auto store = std::make_unique<DurableStoreImpl>(options);
  SPARSEAGG_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace sparseagg
