#include "service/http/origins.h"

#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sparseagg {

Origins::Origins(std::string_view list) {
  const std::vector<std::string> names =
      absl::StrSplit(absl::string_view(list.data(), list.size()), ',', absl::SkipWhitespace());
  for (const std::string& name : names) {
    if (name == "*") all_ = true;
    origins_.insert(name);
  }
}

bool Origins::Allows(std::string_view origin) const { return all_ || origins_.contains(origin); }

}  // namespace sparseagg
