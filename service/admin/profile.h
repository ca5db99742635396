// Where the process spends its CPU time, for `sparseagg admin profile`.
#ifndef SPARSEAGG_SERVICE_ADMIN_PROFILE_H_
#define SPARSEAGG_SERVICE_ADMIN_PROFILE_H_

#include <chrono>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"

namespace sparseagg {

// Samples all threads for `duration`, less when a stop is requested. The bytes are what pprof
// reads. One at a time. UNAVAILABLE in builds without a profiler.
absl::StatusOr<std::string> TakeCpuProfile(std::chrono::seconds duration, std::stop_token stop);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_PROFILE_H_
