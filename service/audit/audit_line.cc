#include "service/audit/audit_line.h"

#include <openssl/sha.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"

namespace sparseagg {

std::string NoHash() { return std::string(2 * SHA256_DIGEST_LENGTH, '0'); }

std::string HashOf(std::string_view line) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(line.data()), line.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

std::string FormatAuditLine(const AuditLine& line) {
  nlohmann::ordered_json json = {{"n", line.number}, {"time", line.time}, {"event", line.event}};
  for (const auto& [key, value] : line.fields) json[key] = value;
  json["prev"] = line.previous;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<AuditLink> ParseAuditLine(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("n") || !json["n"].is_number_unsigned() ||
      !json.contains("prev") || !json["prev"].is_string()) {
    return std::nullopt;
  }
  return AuditLink{json["n"].get<uint64_t>(), json["prev"].get<std::string>()};
}

}  // namespace sparseagg
