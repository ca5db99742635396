// The CPU profiler behind `sparseagg admin profile`.
#ifndef SPARSEAGG_SERVICE_ADMIN_PROFILE_H_
#define SPARSEAGG_SERVICE_ADMIN_PROFILE_H_

#include <chrono>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"

namespace sparseagg {

// Samples all threads for `duration`, or until `stop` is requested. Returns a profile in pprof's
// format. There is one profile at a time. UNAVAILABLE in builds without a profiler.
absl::StatusOr<std::string> TakeCpuProfile(std::chrono::seconds duration, std::stop_token stop);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_PROFILE_H_
