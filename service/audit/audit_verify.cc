// VerifyAuditLog().
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/audit/audit_line.h"
#include "service/audit/audit_log.h"

namespace sparseagg {

namespace {

absl::Status Unreadable(const std::string& path, const std::string& why) {
  return MakeError(absl::StatusCode::kNotFound, "AUDIT_UNREADABLE",
                   absl::StrCat("cannot read ", path, ": ", why));
}

}  // namespace

absl::StatusOr<AuditSummary> VerifyAuditLog(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return Unreadable(path, "it is not a regular file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unreadable(path, std::strerror(errno));
  AuditSummary summary{.last_hash = NoHash()};
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) {
      summary.torn_bytes = line.size();
      break;
    }
    const auto broken = [&](std::string_view why) {
      return MakeError(absl::StatusCode::kDataLoss, "AUDIT_BROKEN",
                       absl::StrCat(path, ": line ", summary.lines + 1, " ", std::string(why)));
    };
    const auto link = ParseAuditLine(line);
    if (!link) return broken("is not a line of an audit log");
    if (link->previous != summary.last_hash) {
      return broken(
          "does not follow the line before it: one of the two was changed, or a line between them "
          "was removed");
    }
    if (link->number != summary.lines + 1) {
      return broken(absl::StrCat("has the number ", link->number));
    }
    ++summary.lines;
    summary.last_hash = HashOf(line);
  }
  if (file.bad()) {
    return Unreadable(path, absl::StrCat("an error after line ", summary.lines));
  }
  return summary;
}

}  // namespace sparseagg
