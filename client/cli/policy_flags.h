// The flags of `round create` that say when a round ends by itself.
#ifndef SPARSEAGG_CLIENT_CLI_POLICY_FLAGS_H_
#define SPARSEAGG_CLIENT_CLI_POLICY_FLAGS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/types.h"

namespace sparseagg::cli {

struct PolicyFlags {
  uint64_t goal = 0;
  uint64_t min = 0;
  uint64_t max = 0;
  std::string grace;
  std::string deadline;
  std::string leaf_wait;
};

// Adds --goal, --grace, --min, --max, --deadline and --leaf-wait.
void AddPolicyFlags(CLI::App& command, PolicyFlags& flags);

// INVALID_ARGUMENT for a malformed time. The server checks that the flags are consistent.
absl::StatusOr<client::RoundPolicy> PolicyOf(const PolicyFlags& flags);

// "90s", "10m", "1h30m", "250ms", or a number of seconds.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(const std::string& flag,
                                                        const std::string& text);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_POLICY_FLAGS_H_
