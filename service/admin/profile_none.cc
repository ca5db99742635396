// For builds with a sanitizer, which uses signals and stacks in its own way.
#include "service/admin/profile.h"

namespace sparseagg {

absl::StatusOr<std::string> TakeCpuProfile(std::chrono::seconds /*duration*/,
                                           std::stop_token /*stop*/) {
  return absl::UnavailableError("this build has no profiler");
}

}  // namespace sparseagg
