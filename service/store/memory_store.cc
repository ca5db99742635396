#include <map>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "service/store/accepted_updates.h"
#include "service/store/ledger.h"
#include "service/store/store.h"

namespace sparseagg {
namespace {

class MemoryStore : public UpdateStore {
 public:
  bool Supports(Durability durability) const override { return durability == Durability::kMemory; }
  const StoreEpoch& Epoch() const override { return epoch_; }

  absl::Status OpenRound(const RoundRecord& round) override {
    if (!Supports(round.durability)) {
      return MakeError(absl::StatusCode::kInvalidArgument, "DURABILITY_UNSUPPORTED",
                       "this store keeps rounds in memory only");
    }
    std::lock_guard lock(mutex_);
    return rounds_.try_emplace(round.name).second ? absl::OkStatus() : RoundExists(round.name);
  }

  absl::Status SetRoundDetails(const std::string& /*round*/,
                               std::string_view /*details*/) override {
    return absl::OkStatus();
  }

  absl::StatusOr<PutResult> Put(UpdateRecord record, const UpdateContent& content) override {
    std::lock_guard lock(mutex_);
    const auto found = rounds_.find(record.round);
    if (found == rounds_.end()) return RoundNotFound(record.round);
    SPARSEAGG_ASSIGN_OR_RETURN(std::optional<PutResult> known,
                               found->second.Classify(record, content.contributors_max));
    if (known.has_value()) return *std::move(known);
    record.sequence = found->second.last_sequence() + 1;
    found->second.Add(record);
    return PutResult{PutOutcome::kAccepted, std::move(record)};
  }

  std::optional<UpdateRecord> Find(const std::string& round,
                                   const std::string& contributor) const override {
    std::lock_guard lock(mutex_);
    const auto found = rounds_.find(round);
    return found == rounds_.end() ? std::nullopt : found->second.Find(contributor);
  }

  absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round,
                                                       std::string_view /*details*/) override {
    std::lock_guard lock(mutex_);
    const auto found = rounds_.find(round);
    if (found == rounds_.end()) return RoundNotFound(round);
    found->second.Close();
    return found->second.Records();
  }

  absl::Status PublishRound(const std::string& /*round*/, std::string_view /*details*/,
                            std::span<const std::string_view> /*result*/,
                            bool /*keep_updates*/) override {
    return absl::OkStatus();
  }

  absl::Status ErasePayloads(const std::string& /*round*/) override { return absl::OkStatus(); }

  absl::Status AbortRound(const std::string& round, std::string_view /*details*/) override {
    std::lock_guard lock(mutex_);
    const auto found = rounds_.find(round);
    if (found == rounds_.end()) return RoundNotFound(round);
    found->second.Close();
    found->second.Clear();
    return absl::OkStatus();
  }

  absl::Status EraseRound(const std::string& round) override {
    std::lock_guard lock(mutex_);
    rounds_.erase(round);
    return absl::OkStatus();
  }

  absl::Status RetireRound(const Tombstone& tombstone) override {
    return EraseRound(tombstone.round);
  }
  absl::Status ForgetTombstones(std::chrono::system_clock::time_point /*erased_before*/) override {
    return absl::OkStatus();
  }

  std::vector<RoundRecord> Rounds() const override { return {}; }
  std::vector<Tombstone> Tombstones() const override { return {}; }
  absl::Status ReadUpdates(const std::string& round, const OnUpdate& /*on_update*/) const override {
    return RoundNotFound(round);
  }
  absl::StatusOr<std::string> ReadResult(const std::string& round) const override {
    return RoundNotFound(round);
  }

 private:
  const StoreEpoch epoch_ = {.store_id = NewStoreId(), .epoch = 1};
  mutable std::mutex mutex_;
  std::map<std::string, AcceptedUpdates> rounds_;
};

}  // namespace

std::unique_ptr<UpdateStore> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace sparseagg
