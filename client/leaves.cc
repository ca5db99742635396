#include "client/leaves.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/rendezvous.h"
#include "base/status.h"

namespace sparseagg::client {

absl::StatusOr<std::shared_ptr<Client>> Leaves::Find(const std::string& round,
                                                     const std::string& contributor) {
  const std::lock_guard lock(mutex_);
  const auto known = rounds_.find(round);
  if (known == rounds_.end()) return nullptr;
  known->second.used = ++uses_;
  const std::vector<Leaf>& leaves = known->second.leaves;
  if (leaves.empty()) return nullptr;
  const size_t chosen = ChooseLeaf(round, contributor, leaves.size(),
                                   [&](size_t i) { return std::string_view(leaves[i].id); });
  std::shared_ptr<Client>& client = by_address_[leaves[chosen].address];
  if (client == nullptr) {
    SPARSEAGG_ASSIGN_OR_RETURN(client, Client::Connect(leaves[chosen].address, options_));
  }
  return client;
}

void Leaves::Learn(const std::string& round, const RoundTree& tree) {
  // Only a root says where to send. An owner may put any leaves, and their addresses, into the
  // round of another server.
  const std::vector<Leaf> leaves = tree.self.empty() ? tree.leaves : std::vector<Leaf>();
  const std::lock_guard lock(mutex_);
  is_root_ = is_root_ || !leaves.empty();
  Round& known = rounds_[round];
  bool has_dropped = !known.leaves.empty() && known.leaves != leaves;
  known = {.leaves = leaves, .used = ++uses_};
  if (rounds_.size() > kRoundsMax) {
    const auto oldest =
        std::ranges::min_element(rounds_, {}, [](const auto& entry) { return entry.second.used; });
    has_dropped = has_dropped || !oldest->second.leaves.empty();
    rounds_.erase(oldest);
  }
  if (has_dropped) CloseUnusedLocked();
}

void Leaves::Forget(const std::string& round) {
  const std::lock_guard lock(mutex_);
  rounds_.erase(round);
}

bool Leaves::Knows(const std::string& round) const {
  const std::lock_guard lock(mutex_);
  return rounds_.contains(round);
}

bool Leaves::IsRoot() const {
  const std::lock_guard lock(mutex_);
  return is_root_;
}

void Leaves::CloseUnusedLocked() {
  std::set<std::string_view> used;
  for (const auto& [name, round] : rounds_) {
    for (const Leaf& leaf : round.leaves) used.insert(leaf.address);
  }
  std::erase_if(by_address_, [&](const auto& entry) { return !used.contains(entry.first); });
}

}  // namespace sparseagg::client
