// Requests whose effect is over: their repetition must not have it again. Of each tenant the newest
// are remembered, so that no tenant makes the server forget those of another.
#ifndef SPARSEAGG_SERVICE_TASKS_REQUEST_MEMORY_H_
#define SPARSEAGG_SERVICE_TASKS_REQUEST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace sparseagg {

// Thread-compatible. `Key` identifies a request of one tenant, `Fact` is what is remembered of it.
template <class Key, class Fact>
class RequestMemory {
 public:
  explicit RequestMemory(size_t per_tenant) : per_tenant_(per_tenant) {}

  // Returns null for a request that is not remembered.
  const Fact* Find(std::string_view tenant, const Key& key) const {
    const auto requests = tenants_.find(tenant);
    if (requests == tenants_.end()) return nullptr;
    const auto found = requests->second.facts.find(key);
    return found == requests->second.facts.end() ? nullptr : &found->second;
  }
  // Remembers a request since `time_ms`. Calls `on_forget(key)` for an older one in its place.
  void Add(std::string_view tenant, const Key& key, Fact fact, int64_t time_ms,
           const std::function<void(const Key&)>& on_forget = nullptr) {
    Requests& requests = tenants_[std::string(tenant)];
    if (!requests.facts.try_emplace(key, std::move(fact)).second) return;
    requests.order.emplace_back(time_ms, key);
    if (requests.order.size() > per_tenant_) requests.ForgetFirst(on_forget);
  }
  // Forgets the newest request of the tenant if it is this one.
  void TakeBack(std::string_view tenant, const Key& key) {
    const auto requests = tenants_.find(tenant);
    if (requests == tenants_.end() || requests->second.order.empty()) return;
    if (requests->second.order.back().second != key) return;
    requests->second.order.pop_back();
    requests->second.facts.erase(key);
  }
  // Forgets the requests since before `time_ms`, and the tenants that have no others.
  void ForgetBefore(
      int64_t time_ms,
      const std::function<void(const std::string& tenant, const Key&)>& on_forget = nullptr) {
    for (auto& [tenant, requests] : tenants_) {
      while (!requests.order.empty() && requests.order.front().first < time_ms) {
        requests.ForgetFirst([&, &name = tenant](const Key& key) {
          if (on_forget != nullptr) on_forget(name, key);
        });
      }
    }
    std::erase_if(tenants_, [](const auto& tenant) { return tenant.second.order.empty(); });
  }
  size_t tenants() const { return tenants_.size(); }

 private:
  struct Requests {
    absl::flat_hash_map<Key, Fact> facts;
    std::deque<std::pair<int64_t, Key>> order;  // by time, the oldest first

    void ForgetFirst(const std::function<void(const Key&)>& on_forget) {
      if (on_forget != nullptr) on_forget(order.front().second);
      facts.erase(order.front().second);
      order.pop_front();
    }
  };

  const size_t per_tenant_;
  std::map<std::string, Requests, std::less<>> tenants_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_REQUEST_MEMORY_H_
