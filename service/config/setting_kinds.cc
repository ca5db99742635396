#include "service/config/setting_kinds.h"

#include <algorithm>
#include <charconv>

#include "base/status.h"

namespace sparseagg {
namespace {

struct UnitSuffix {
  std::string_view unit;
  std::string_view suffix;
  uint64_t factor;
};

constexpr UnitSuffix kSuffixes[] = {
    {"bytes", "KiB", uint64_t{1} << 10},
    {"bytes", "MiB", uint64_t{1} << 20},
    {"bytes", "GiB", uint64_t{1} << 30},
    {"bytes", "TiB", uint64_t{1} << 40},
    {"ms", "ms", 1},
    {"ms", "s", 1000},
};

}  // namespace

absl::Status InvalidSetting(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG", message);
}

std::optional<uint64_t> ParseNumber(std::string_view text, std::string_view unit) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest == text.data()) return std::nullopt;
  const std::string_view suffix = text.substr(rest - text.data());
  if (suffix.empty()) return number;
  for (const UnitSuffix& row : kSuffixes) {
    const bool of_unit = row.unit == unit || absl::StrCat(std::string(row.unit), "/s") == unit;
    if (!of_unit || row.suffix != suffix) continue;
    if (number > std::numeric_limits<uint64_t>::max() / row.factor) return std::nullopt;
    return number * row.factor;
  }
  return std::nullopt;
}

Setting TextSetting(std::string_view name, std::string_view help,
                    std::string& (*field)(ServerConfig&), bool may_be_empty) {
  Setting setting{name, "", help, false, nullptr, nullptr};
  setting.parse = [=](std::string_view value, ServerConfig& config) {
    const bool clean =
        std::none_of(value.begin(), value.end(), [](char c) { return c == '"' || c == '\n'; });
    if (!clean) return InvalidSetting("must not contain quotes or line ends");
    if (value.empty() && !may_be_empty) return InvalidSetting("must not be empty");
    field(config) = std::string(value);
    return absl::OkStatus();
  };
  setting.print = [=](const ServerConfig& config) {
    ServerConfig copy = config;
    return absl::StrCat("\"", field(copy), "\"");
  };
  return setting;
}

Setting AddressSetting(Setting setting, std::string_view form,
                       std::string (*error_of)(std::string_view value)) {
  setting.parse = [=, parse = setting.parse](std::string_view value, ServerConfig& config) {
    const std::string wrong = value.empty() ? "" : error_of(value);
    if (wrong.empty()) return parse(value, config);
    return InvalidSetting(absl::StrCat("must be ", std::string(form), ": ", wrong));
  };
  return setting;
}

Setting SwitchSetting(std::string_view name, std::string_view help, bool& (*field)(ServerConfig&)) {
  Setting setting{name, "", help, false, nullptr, nullptr};
  setting.parse = [=](std::string_view value, ServerConfig& config) {
    if (value != "true" && value != "false") return InvalidSetting("must be true or false");
    field(config) = value == "true";
    return absl::OkStatus();
  };
  setting.print = [=](const ServerConfig& config) {
    ServerConfig copy = config;
    return std::string(field(copy) ? "true" : "false");
  };
  return setting;
}

Setting ShareSetting(std::string_view name, std::string_view help,
                     double& (*field)(ServerConfig&)) {
  Setting setting{name, "", help, false, nullptr, nullptr};
  setting.parse = [=](std::string_view value, ServerConfig& config) {
    double share = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), share);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (!whole || !(share >= 0 && share <= 1))
      return InvalidSetting("must be a number from 0 to 1");
    field(config) = share + 0.0;  // -0 is 0
    return absl::OkStatus();
  };
  setting.print = [=](const ServerConfig& config) {
    ServerConfig copy = config;
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof(text), field(copy)).ptr);
  };
  return setting;
}

}  // namespace sparseagg
