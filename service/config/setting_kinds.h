// The kinds of settings in the table of config.cc: numbers, texts, addresses, switches, shares.
// Each parses a value into a field of the configuration, or says what is allowed, and prints it in
// a form that it parses again.
#ifndef SPARSEAGG_SERVICE_CONFIG_SETTING_KINDS_H_
#define SPARSEAGG_SERVICE_CONFIG_SETTING_KINDS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/config/config.h"

namespace sparseagg {

// INVALID_ARGUMENT (INVALID_CONFIG).
absl::Status InvalidSetting(const std::string& message);

// A whole number, with an optional suffix where the unit allows one ("16MiB", "30s").
std::optional<uint64_t> ParseNumber(std::string_view text, std::string_view unit);

struct Range {
  uint64_t min = 0;
  uint64_t max = std::numeric_limits<uint64_t>::max();
};

// A setting that is a whole number; `field` returns its place in the configuration.
template <typename Number>
Setting NumberSetting(std::string_view name, std::string_view unit, std::string_view help,
                      Range range, Number& (*field)(ServerConfig&), bool is_limit = false) {
  Setting setting{name, unit, help, is_limit, nullptr, nullptr};
  setting.parse = [=](std::string_view value, ServerConfig& config) {
    const std::optional<uint64_t> number = ParseNumber(value, unit);
    if (!number || *number < range.min || *number > range.max) {
      const char* suffixes = unit.starts_with("bytes") ? " (KiB, MiB, GiB, TiB may follow)"
                             : unit == "ms"            ? " (or 30s)"
                                                       : "";
      return InvalidSetting(absl::StrCat(
          "must be a whole number", unit == "count" ? "" : absl::StrCat(" of ", std::string(unit)),
          " from ", range.min, " to ", range.max, suffixes));
    }
    field(config) = static_cast<Number>(*number);
    return absl::OkStatus();
  };
  setting.print = [=](const ServerConfig& config) {
    ServerConfig copy = config;
    return absl::StrCat(field(copy));
  };
  return setting;
}

Setting TextSetting(std::string_view name, std::string_view help,
                    std::string& (*field)(ServerConfig&), bool may_be_empty);

// A text setting that must have a given form: `error_of` returns what is wrong with a value, "" if
// it is valid.
Setting AddressSetting(Setting setting, std::string_view form,
                       std::string (*error_of)(std::string_view value));

// A boolean setting. `--name` without a value means yes.
Setting SwitchSetting(std::string_view name, std::string_view help, bool& (*field)(ServerConfig&));

// A number from 0 to 1.
Setting ShareSetting(std::string_view name, std::string_view help, double& (*field)(ServerConfig&));

#define SPARSEAGG_FIELD(type, field) +[](ServerConfig& c) -> type& { return c.field; }

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_SETTING_KINDS_H_
