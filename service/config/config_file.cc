#include "service/config/config_file.h"

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

std::string_view Trim(std::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace({text.data(), text.size()});
  return {trimmed.data(), trimmed.size()};
}

// Removes a comment that begins outside quotes.
std::string_view WithoutComment(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    const bool at_word_start = i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t';
    if (text[i] == '#' && !quoted && at_word_start) return text.substr(0, i);
  }
  return text;
}

absl::Status BadLine(const std::string& path, int line, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                   absl::StrCat(path, ":", line, ": ", message));
}

}  // namespace

absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(std::string_view text,
                                                        const std::string& path) {
  std::vector<ConfigLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(WithoutComment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || Trim(line.substr(0, equals)).empty()) {
      return BadLine(path, number,
                     absl::StrCat("expected `key = value`, found `", std::string(line), "`"));
    }
    std::string_view value = Trim(line.substr(equals + 1));
    if (value.starts_with('"')) {
      if (value.size() < 2 || value.find('"', 1) != value.size() - 1) {
        return BadLine(path, number, "the value begins with a quote and does not end with one");
      }
      value = value.substr(1, value.size() - 2);
    }
    lines.push_back({number, std::string(Trim(line.substr(0, equals))), std::string(value)});
  }
  return lines;
}

absl::StatusOr<std::vector<ConfigLine>> ReadConfigFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return MakeError(absl::StatusCode::kNotFound, "CONFIG_FILE_UNREADABLE",
                     absl::StrCat("cannot read the configuration file ", path, ", or it is empty"));
  }
  return ParseConfigFile(text.str(), path);
}

}  // namespace sparseagg
