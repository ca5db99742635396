// One line of the audit log, and the hash that chains it to the line before.
#ifndef SPARSEAGG_SERVICE_AUDIT_AUDIT_LINE_H_
#define SPARSEAGG_SERVICE_AUDIT_AUDIT_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparseagg {

// The previous hash of the first line: 64 zeros.
std::string NoHash();
// The SHA-256 of a line without its line end, in hexadecimal.
std::string HashOf(std::string_view line);

struct AuditLine {
  uint64_t number = 0;  // from 1
  std::string time;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string previous;  // hash of the line before
};

// The text of a line, without a line end. Invalid UTF-8 is replaced.
std::string FormatAuditLine(const AuditLine& line);

// The number and the previous hash of a line.
struct AuditLink {
  uint64_t number = 0;
  std::string previous;
};
std::optional<AuditLink> ParseAuditLine(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUDIT_AUDIT_LINE_H_
