#include "service/http/connection_set.h"

#include <utility>

namespace sparseagg {

void ConnectionSet::Add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_[connection.get()] = connection;
  on_change_(connections_.size());
}

void ConnectionSet::Remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  on_change_(connections_.size());
  if (connections_.empty()) removed_.notify_all();
}

size_t ConnectionSet::size() {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

std::vector<std::shared_ptr<Connection>> ConnectionSet::All() {
  std::vector<std::shared_ptr<Connection>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, weak] : connections_) {
    if (auto connection = weak.lock()) all.push_back(std::move(connection));
  }
  return all;
}

bool ConnectionSet::WaitUntilEmpty(std::chrono::system_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return removed_.wait_until(lock, deadline, [this] { return connections_.empty(); });
}

}  // namespace sparseagg
