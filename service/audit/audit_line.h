// One line of the audit log, and what ties it to the one before.
#ifndef SPARSEAGG_SERVICE_AUDIT_AUDIT_LINE_H_
#define SPARSEAGG_SERVICE_AUDIT_AUDIT_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparseagg {

// What stands for a line before the first: 64 zeros.
std::string NoHash();
// SHA-256 of a line without its end, in hex.
std::string HashOf(std::string_view line);

struct AuditLine {
  uint64_t number = 0;  // from 1
  std::string time;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string previous;  // hash
};

// Without a line end. Text that is no UTF-8 has its bad bytes replaced.
std::string FormatAuditLine(const AuditLine& line);

// Number and previous hash of a line; nothing for what is none.
struct AuditLink {
  uint64_t number = 0;
  std::string previous;
};
std::optional<AuditLink> ParseAuditLine(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUDIT_AUDIT_LINE_H_
