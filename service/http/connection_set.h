// The connections of the HTTP edge that exist.
#ifndef SPARSEAGG_SERVICE_HTTP_CONNECTION_SET_H_
#define SPARSEAGG_SERVICE_HTTP_CONNECTION_SET_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sparseagg {

class Connection;

// Thread-safe.
class ConnectionSet {
 public:
  // `on_change` is called with the number of connections after each change, one call at a time.
  explicit ConnectionSet(std::function<void(size_t open)> on_change)
      : on_change_(std::move(on_change)) {}

  void Add(const std::shared_ptr<Connection>& connection);
  void Remove(const Connection* connection);
  size_t size();
  std::vector<std::shared_ptr<Connection>> All();
  // Returns whether none is left at `deadline`.
  bool WaitUntilEmpty(std::chrono::system_clock::time_point deadline);

 private:
  const std::function<void(size_t open)> on_change_;
  std::mutex mutex_;
  std::condition_variable removed_;
  std::map<const Connection*, std::weak_ptr<Connection>> connections_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_CONNECTION_SET_H_
