// The configuration file: lines of `key = value`. A `#` at the start of a line or after white space
// begins a comment; a value may stand in double quotes, and then holds any character but a double
// quote.
//
//   # /etc/sparseagg.conf
//   listen            = 0.0.0.0:50061
//   message-bytes-max = 32MiB          # one gRPC message
#ifndef SPARSEAGG_SERVICE_CONFIG_CONFIG_FILE_H_
#define SPARSEAGG_SERVICE_CONFIG_CONFIG_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg {

struct ConfigLine {
  int line = 0;  // from 1
  std::string key;
  std::string value;
};

// INVALID_ARGUMENT (INVALID_CONFIG) names `path` and the line.
absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(std::string_view text,
                                                        const std::string& path);

// The same, from the file. NOT_FOUND (CONFIG_FILE_UNREADABLE) when it cannot be read.
absl::StatusOr<std::vector<ConfigLine>> ReadConfigFile(const std::string& path);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_CONFIG_FILE_H_
