// Identifies an acquisition of a worker by its request id: 16 bytes for whatever the worker calls
// it, because each task keeps the one of its last lease.
#ifndef SPARSEAGG_SERVICE_TASKS_REQUEST_KEY_H_
#define SPARSEAGG_SERVICE_TASKS_REQUEST_KEY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sparseagg {

// The first 16 bytes of a SHA-256 over tenant, worker and request id. All zero: no request id.
struct RequestKey {
  uint64_t high = 0;
  uint64_t low = 0;

  bool empty() const { return high == 0 && low == 0; }
  bool operator==(const RequestKey&) const = default;
  template <typename Hash>
  friend Hash AbslHashValue(Hash hash, const RequestKey& key) {
    return Hash::combine(std::move(hash), key.high, key.low);
  }
};

RequestKey KeyOfRequest(std::string_view tenant, std::string_view worker,
                        std::string_view request_id);
// 32 hexadecimal digits, as rows have it.
std::string ToText(const RequestKey& key);
std::optional<RequestKey> ParseRequestKey(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_REQUEST_KEY_H_
