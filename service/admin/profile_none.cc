// For builds with a sanitizer, which has signals and stacks of its own.
#include "service/admin/profile.h"

namespace sparseagg {

absl::StatusOr<std::string> TakeCpuProfile(std::chrono::seconds /*duration*/,
                                           std::stop_token /*stop*/) {
  return absl::UnavailableError("this build has no profiler");
}

}  // namespace sparseagg
