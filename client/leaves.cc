#include "client/leaves.h"

#include <string_view>
#include <utility>

#include "base/rendezvous.h"
#include "base/status.h"

namespace sparseagg::client {

absl::StatusOr<Client*> Leaves::Find(const std::string& round, const std::string& contributor) {
  const std::lock_guard lock(mutex_);
  const auto tree = trees_.find(round);
  if (tree == trees_.end()) return nullptr;
  const std::vector<Leaf>& leaves = tree->second.leaves;
  const size_t chosen = ChooseLeaf(round, contributor, leaves.size(),
                                   [&](size_t i) { return std::string_view(leaves[i].id); });
  std::unique_ptr<Client>& client = by_address_[leaves[chosen].address];
  if (client == nullptr) {
    SPARSEAGG_ASSIGN_OR_RETURN(client, Client::Connect(leaves[chosen].address, options_));
  }
  return client.get();
}

void Leaves::Learn(const std::string& round, const RoundTree& tree) {
  const std::lock_guard lock(mutex_);
  if (!tree.leaves.empty()) trees_[round] = tree;
}

void Leaves::Forget(const std::string& round) {
  const std::lock_guard lock(mutex_);
  trees_.erase(round);
}

}  // namespace sparseagg::client
