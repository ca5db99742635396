#include "service/tasks/request_key.h"

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/store/checksums/digest.h"

namespace sparseagg {

RequestKey KeyOfRequest(std::string_view tenant, std::string_view worker,
                        std::string_view request_id) {
  RequestKey key;
  if (request_id.empty()) return key;
  const std::string digest = Sha256().String(tenant).String(worker).String(request_id).Finish();
  std::memcpy(&key.high, digest.data(), sizeof(key.high));
  std::memcpy(&key.low, digest.data() + sizeof(key.high), sizeof(key.low));
  return key;
}

std::string ToText(const RequestKey& key) {
  return absl::StrCat(absl::Hex(key.high, absl::kZeroPad16), absl::Hex(key.low, absl::kZeroPad16));
}

std::optional<RequestKey> ParseRequestKey(std::string_view text) {
  constexpr size_t kDigits = 16;
  RequestKey key;
  const bool is_key = text.size() == 2 * kDigits &&
                      text.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
                      absl::SimpleHexAtoi(std::string(text.substr(0, kDigits)), &key.high) &&
                      absl::SimpleHexAtoi(std::string(text.substr(kDigits)), &key.low);
  if (!is_key) return std::nullopt;
  return key;
}

}  // namespace sparseagg
