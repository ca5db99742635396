#include "service/config/devices.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/config/setting_kinds.h"

namespace sparseagg {
namespace {

constexpr uint64_t kDevicesMax = 64;  // more than any machine has

}  // namespace

absl::StatusOr<DeviceSelection> ParseDevices(std::string_view text) {
  if (text == "all") return DeviceSelection{.all = true, .numbers = {}};
  DeviceSelection selection{.all = false, .numbers = {}};
  const std::optional<uint64_t> count = ParseNumber(text, "count");
  if (count.has_value()) {
    if (*count == 0 || *count > kDevicesMax) {
      return InvalidSetting(absl::StrCat("a count is from 1 to ", kDevicesMax));
    }
    selection.numbers.resize(static_cast<size_t>(*count));
    std::iota(selection.numbers.begin(), selection.numbers.end(), 0u);
    return selection;
  }
  if (text.ends_with(',')) text.remove_suffix(1);
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
  for (const std::string& part : parts) {
    const std::optional<uint64_t> number = ParseNumber(part, "count");
    if (!number.has_value() || *number >= kDevicesMax) {
      return InvalidSetting(absl::StrCat("\"", part, "\" is no number of a device"));
    }
    const auto device = static_cast<uint32_t>(*number);
    if (std::find(selection.numbers.begin(), selection.numbers.end(), device) !=
        selection.numbers.end()) {
      return InvalidSetting(absl::StrCat("device ", device, " is there twice"));
    }
    selection.numbers.push_back(device);
  }
  return selection;
}

std::string DevicesError(std::string_view text) {
  return std::string(ParseDevices(text).status().message());
}

}  // namespace sparseagg
