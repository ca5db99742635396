#include "client/cli/policy_flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "client/cli/tensor_spec.h"

namespace sparseagg::cli {

void AddPolicyFlags(CLI::App& command, PolicyFlags& flags) {
  command
      .add_option("--goal", flags.goal,
                  "Seal the round when this many updates are accepted, after --grace")
      ->check(NotNegative);
  command.add_option("--grace", flags.grace,
                     "How long further updates are accepted after the goal: 30s, 10m, 1h30m");
  command
      .add_option("--min", flags.min,
                  "Fewest updates at the deadline; with fewer the round is aborted")
      ->check(NotNegative);
  command.add_option("--max", flags.max, "Most updates; more are refused")->check(NotNegative);
  command.add_option(
      "--deadline", flags.deadline,
      "When the round is sealed at the latest: after this time (10m, 2h), or at a time "
      "(2026-01-31T18:00:00Z)");
  command.add_option("--leaf-wait", flags.leaf_wait,
                     "With leaves: how long after the seal one that does not answer is waited for "
                     "(default: for ever)");
}

absl::StatusOr<std::chrono::milliseconds> ParseDuration(const std::string& flag,
                                                        const std::string& text) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    return BadArgument(
        absl::StrCat(flag, ": \"", text, "\" is not a duration; write 30s, 10m, 1h30m or 250ms"));
  }
  // nan and inf have become infinite durations.
  if (duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return BadArgument(absl::StrCat(flag, ": \"", text, "\" is not a duration of 0 or more"));
  }
  // Rounds up, so that a positive time does not become 0.
  return absl::ToChronoMilliseconds(absl::Ceil(duration, absl::Milliseconds(1)));
}

absl::StatusOr<client::RoundPolicy> PolicyOf(const PolicyFlags& flags) {
  client::RoundPolicy policy;
  policy.goal_contributors = flags.goal;
  policy.min_contributors = flags.min;
  policy.max_contributors = flags.max;
  if (!flags.grace.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(policy.grace, ParseDuration("--grace", flags.grace));
  }
  if (!flags.leaf_wait.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(policy.leaf_wait, ParseDuration("--leaf-wait", flags.leaf_wait));
  }
  if (flags.deadline.empty()) return policy;
  absl::Time time;
  std::string why_not;
  if (absl::ParseTime(absl::RFC3339_full, flags.deadline, &time, &why_not)) {
    policy.open_until = absl::ToChronoTime(time);
  } else {
    SPARSEAGG_ASSIGN_OR_RETURN(policy.open_for, ParseDuration("--deadline", flags.deadline));
  }
  return policy;
}

}  // namespace sparseagg::cli
