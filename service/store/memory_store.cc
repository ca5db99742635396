#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "service/store/store.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

struct Books {
  bool open = true;
  std::map<std::string, UpdateRecord> by_contributor;
};

absl::Status NoBooks(const std::string& round) {
  return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                   absl::StrCat("round \"", round, "\" does not exist"));
}

// What a second update of a counted contributor is: a resend, other bytes under the same id, or
// another update.
absl::StatusOr<PutResult> Recognise(const UpdateRecord& stored, const UpdateRecord& record) {
  if (stored.update_id != record.update_id) {
    return MakeError(
        absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED",
        absl::StrCat("contributor \"", record.contributor, "\" is counted already, with update \"",
                     stored.update_id, "\"; one update for each contributor and round"));
  }
  if (stored.digest != record.digest) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT",
        absl::StrCat("update \"", record.update_id, "\" of contributor \"", record.contributor,
                     "\" was counted with other bytes; a resend must be the same"));
  }
  return PutResult{PutOutcome::kDuplicate, stored};
}

class MemoryStore : public UpdateStore {
 public:
  bool Supports(Durability durability) const override { return durability == Durability::kMemory; }

  absl::Status OpenRound(const std::string& round, Durability durability) override {
    if (!Supports(durability)) {
      return MakeError(absl::StatusCode::kInvalidArgument, "DURABILITY_UNSUPPORTED",
                       "this store keeps rounds in memory only");
    }
    std::lock_guard lock(mutex_);
    if (!rounds_.try_emplace(round).second) {
      return MakeError(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS",
                       absl::StrCat("round \"", round, "\" exists already"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PutResult> Put(const UpdateRecord& record,
                                std::span<const std::string_view> /*payload*/) override {
    std::lock_guard lock(mutex_);
    const auto round = rounds_.find(record.round);
    if (round == rounds_.end()) return NoBooks(record.round);
    Books& books = round->second;
    const auto stored = books.by_contributor.find(record.contributor);
    if (stored != books.by_contributor.end()) return Recognise(stored->second, record);
    if (!books.open) {
      return MakeError(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN",
                       absl::StrCat("round \"", record.round, "\" accepts no more updates"));
    }
    UpdateRecord accepted = record;
    accepted.sequence = books.by_contributor.size() + 1;
    books.by_contributor.emplace(record.contributor, accepted);
    return PutResult{PutOutcome::kAccepted, std::move(accepted)};
  }

  std::optional<UpdateRecord> Find(const std::string& round,
                                   const std::string& contributor) const override {
    std::lock_guard lock(mutex_);
    const auto books = rounds_.find(round);
    if (books == rounds_.end()) return std::nullopt;
    const auto stored = books->second.by_contributor.find(contributor);
    if (stored == books->second.by_contributor.end()) return std::nullopt;
    return stored->second;
  }

  absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string& round) override {
    std::lock_guard lock(mutex_);
    const auto books = rounds_.find(round);
    if (books == rounds_.end()) return NoBooks(round);
    books->second.open = false;
    std::vector<UpdateRecord> records;
    records.reserve(books->second.by_contributor.size());
    for (const auto& [contributor, record] : books->second.by_contributor) {
      records.push_back(record);
    }
    return records;
  }

  absl::Status ErasePayloads(const std::string& /*round*/) override { return absl::OkStatus(); }

  absl::Status EraseRound(const std::string& round) override {
    std::lock_guard lock(mutex_);
    rounds_.erase(round);
    return absl::OkStatus();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Books> rounds_;
};

}  // namespace

std::unique_ptr<UpdateStore> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace sparseagg
