#include "service/engine/partial/covered_updates.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

absl::Status Overlap(std::string_view node, std::string_view contributor, std::string_view where) {
  return WithMetadata(
      MakeError(absl::StatusCode::kAlreadyExists, "CONTRIBUTORS_OVERLAP",
                absl::StrCat("the partial aggregate of ", Quoted(node), " covers contributor ",
                             Quoted(contributor), ", which ", std::string(where))),
      "contributor", contributor);
}

}  // namespace

absl::Status CoveredUpdates::CheckDisjoint(
    std::string_view node, const std::vector<UpdateRecord>& covered,
    const std::function<bool(const std::string& contributor)>& is_counted) const {
  for (const UpdateRecord& update : covered) {
    if (update.contributor == node) {
      return Overlap(node, update.contributor, "has the name of the sender itself");
    }
    const auto it = node_of_.find(update.contributor);
    if (it != node_of_.end()) {
      return Overlap(node, update.contributor,
                     absl::StrCat("the one of ", Quoted(it->second), " covers already"));
    }
    if (is_counted(update.contributor)) {
      return Overlap(node, update.contributor, "has been counted here by itself");
    }
  }
  return absl::OkStatus();
}

absl::Status CoveredUpdates::CheckNotCovered(std::string_view contributor) const {
  const auto it = node_of_.find(contributor);
  if (it == node_of_.end()) return absl::OkStatus();
  return WithMetadata(
      MakeError(absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED",
                absl::StrCat("contributor ", Quoted(contributor),
                             " was counted in the partial aggregate of ", Quoted(it->second))),
      "node", it->second);
}

void CoveredUpdates::Add(std::string node, std::vector<UpdateRecord> covered) {
  const auto it = by_node_.emplace(std::move(node), std::move(covered)).first;
  for (const UpdateRecord& update : it->second) node_of_.emplace(update.contributor, it->first);
}

std::vector<UpdateRecord> CoveredUpdates::Expand(std::vector<UpdateRecord> accepted) const {
  if (by_node_.empty()) return accepted;
  std::vector<UpdateRecord> all;
  for (UpdateRecord& record : accepted) {
    const auto it = by_node_.find(record.contributor);
    if (it == by_node_.end()) {
      all.push_back(std::move(record));
    } else {
      all.insert(all.end(), it->second.begin(), it->second.end());
    }
  }
  return all;
}

}  // namespace sparseagg
