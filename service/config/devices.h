// The setting `devices`: which of the machine's devices (GPUs) the back end uses.
#ifndef SPARSEAGG_SERVICE_CONFIG_DEVICES_H_
#define SPARSEAGG_SERVICE_CONFIG_DEVICES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg {

// "all", a count ("4": the first four), or numbers between commas ("0,2,3"; "3," is number 3
// alone). INVALID_ARGUMENT (INVALID_CONFIG).
absl::StatusOr<DeviceSelection> ParseDevices(std::string_view text);

// Returns what is wrong with such a text; empty if it is valid.
std::string DevicesError(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_DEVICES_H_
