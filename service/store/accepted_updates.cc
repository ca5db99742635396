#include "service/store/accepted_updates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

// Classifies an update of a counted contributor: a resend, other bytes under the same update_id, or
// another update.
absl::StatusOr<PutResult> Recognise(const UpdateRecord& stored, const UpdateRecord& record) {
  if (stored.update_id != record.update_id) {
    return MakeError(
        absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED",
        absl::StrCat("contributor \"", record.contributor, "\" was already counted with update \"",
                     stored.update_id, "\"; a contributor has one update in each round"));
  }
  if (stored.digest != record.digest) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT",
        absl::StrCat("update \"", record.update_id, "\" of contributor \"", record.contributor,
                     "\" was counted with other bytes; a resend must have the same bytes"));
  }
  return PutResult{PutOutcome::kDuplicate, stored};
}

}  // namespace

absl::StatusOr<std::optional<PutResult>> AcceptedUpdates::Classify(
    const UpdateRecord& record, uint64_t contributors_max) const {
  const auto stored = by_contributor_.find(std::string_view(record.contributor));
  if (stored != by_contributor_.end()) {
    SPARSEAGG_ASSIGN_OR_RETURN(PutResult known, Recognise(*stored, record));
    return std::optional<PutResult>(std::move(known));
  }
  if (!open_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN",
                     absl::StrCat("round \"", record.round, "\" accepts no more updates"));
  }
  if (contributors_max != 0 && by_contributor_.size() >= contributors_max) {
    return MakeError(absl::StatusCode::kResourceExhausted, "ROUND_FULL",
                     absl::StrCat("round \"", record.round, "\" has its maximum of ",
                                  contributors_max, " contributors"));
  }
  return std::optional<PutResult>();
}

void AcceptedUpdates::Add(UpdateRecord record) {
  last_sequence_ = std::max(last_sequence_, record.sequence);
  by_contributor_.insert(std::move(record));
}

std::optional<UpdateRecord> AcceptedUpdates::Find(std::string_view contributor) const {
  const auto stored = by_contributor_.find(contributor);
  if (stored == by_contributor_.end()) return std::nullopt;
  return *stored;
}

std::vector<UpdateRecord> AcceptedUpdates::Records() const {
  return {by_contributor_.begin(), by_contributor_.end()};
}

absl::Status RoundNotFound(const std::string& round) {
  return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                   absl::StrCat("round \"", round, "\" does not exist"));
}

absl::Status RoundExists(const std::string& round) {
  return MakeError(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS",
                   absl::StrCat("round \"", round, "\" exists already"));
}

}  // namespace sparseagg
