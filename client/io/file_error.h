// Errors about files: one line that names the file and the line or member.
#ifndef SPARSEAGG_CLIENT_IO_FILE_ERROR_H_
#define SPARSEAGG_CLIENT_IO_FILE_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::client {

// A piece of a file for a message, escaped and truncated.
inline std::string Excerpt(std::string_view text) {
  constexpr size_t kExcerptBytes = 40;
  return absl::StrCat(absl::Utf8SafeCHexEscape(std::string(text.substr(0, kExcerptBytes))),
                      text.size() > kExcerptBytes ? "..." : "");
}
inline std::string Quoted(std::string_view text) { return absl::StrCat("\"", Excerpt(text), "\""); }

// The content violates the format. `where` is "" or a position: "line 3", "member x.npy".
inline absl::Status MalformedFile(const std::string& path, const std::string& where,
                                  const std::string& what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_FILE",
                   absl::StrCat(path, where.empty() ? "" : ": ", where, ": ", what));
}

// The file exceeds a limit of the reader.
inline absl::Status FileTooLarge(const std::string& path, const std::string& where,
                                 const std::string& what) {
  return MakeError(absl::StatusCode::kResourceExhausted, "FILE_TOO_LARGE",
                   absl::StrCat(path, where.empty() ? "" : ": ", where, ": ", what));
}

// The operating system reports an error.
inline absl::Status FileUnusable(const std::string& path, const std::string& what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "FILE_UNUSABLE",
                   absl::StrCat(path, ": ", what));
}

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_FILE_ERROR_H_
