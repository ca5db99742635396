#include "service/engine/round_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_POLICY", message);
}

// Checks that low <= high. Both are numbers of contributors; 0 means "not set".
absl::Status CheckOrder(const char* low_name, uint64_t low, const char* high_name, uint64_t high) {
  if (low == 0 || high == 0 || low <= high) return absl::OkStatus();
  return Invalid(absl::StrCat("policy.", low_name, " is ", low, ", above policy.", high_name, " = ",
                              high, "; min <= goal <= max must hold"));
}

absl::Status CheckLongest(std::string_view field, milliseconds time, const Limits& limits) {
  if (time > kPolicyTimeMax) {
    return Invalid(absl::StrCat("policy.", std::string(field), " is more than ",
                                kPolicyTimeMax.count(), " ms (10 years)"));
  }
  if (limits.round_open_ms_max == 0 ||
      static_cast<uint64_t>(time.count()) <= limits.round_open_ms_max) {
    return absl::OkStatus();
  }
  return Invalid(absl::StrCat("policy.", std::string(field), " is ", time.count(),
                              " ms, above round-open-ms-max = ", limits.round_open_ms_max));
}

milliseconds Earlier(const std::optional<milliseconds>& a, milliseconds b) {
  return a.has_value() ? std::min(*a, b) : b;
}

}  // namespace

std::string_view SealReasonName(SealReason reason) {
  switch (reason) {
    case SealReason::kRequested:
      return "REQUESTED";
    case SealReason::kGoal:
      return "GOAL";
    case SealReason::kDeadline:
      return "DEADLINE";
  }
  return "UNKNOWN";
}

absl::Status CheckPolicy(const RoundPolicy& policy, const Limits& limits) {
  SPARSEAGG_RETURN_IF_ERROR(CheckOrder("min_contributors", policy.min_contributors,
                                       "goal_contributors", policy.goal_contributors));
  SPARSEAGG_RETURN_IF_ERROR(CheckOrder("goal_contributors", policy.goal_contributors,
                                       "max_contributors", policy.max_contributors));
  SPARSEAGG_RETURN_IF_ERROR(CheckOrder("min_contributors", policy.min_contributors,
                                       "max_contributors", policy.max_contributors));
  if (policy.grace < milliseconds(0)) return Invalid("policy.grace is negative");
  if (policy.grace > milliseconds(0) && policy.goal_contributors == 0) {
    return Invalid(
        "policy.grace needs policy.goal_contributors: it starts when the goal is reached");
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckLongest("grace", policy.grace, limits));
  if (policy.open_for.has_value() && policy.open_until.has_value()) {
    return Invalid("policy.open_for and policy.open_until are both set; a round has one deadline");
  }
  if (policy.leaf_wait.has_value() &&
      (*policy.leaf_wait < milliseconds(0) || *policy.leaf_wait > kPolicyTimeMax)) {
    return Invalid("policy.leaf_wait must be from 0 to 10 years");
  }
  if (!policy.open_for.has_value()) return absl::OkStatus();
  if (*policy.open_for <= milliseconds(0)) return Invalid("policy.open_for must be above 0");
  return CheckLongest("open_for", *policy.open_for, limits);
}

absl::StatusOr<std::optional<milliseconds>> TimeOpen(const RoundPolicy& policy,
                                                     const Limits& limits,
                                                     std::chrono::system_clock::time_point now) {
  if (policy.open_for.has_value()) return policy.open_for;
  if (policy.open_until.has_value()) {
    if (*policy.open_until <= now) {
      return Invalid(absl::StrCat(
          "policy.open_until is not in the future: the server's clock is ",
          absl::FormatTime(absl::RFC3339_full, absl::FromChrono(now), absl::UTCTimeZone())));
    }
    const auto time = std::chrono::ceil<milliseconds>(*policy.open_until - now);
    SPARSEAGG_RETURN_IF_ERROR(CheckLongest("open_until", time, limits));
    return time;
  }
  if (limits.round_open_ms_max == 0) return std::nullopt;
  return milliseconds(limits.round_open_ms_max);
}

bool EndsAtGoal(const RoundPolicy& policy) {
  return policy.goal_contributors != 0 && policy.grace == milliseconds(0);
}

uint64_t Capacity(const RoundPolicy& policy) {
  return EndsAtGoal(policy) ? policy.goal_contributors : policy.max_contributors;
}

bool GoalReached(const RoundPolicy& policy, uint64_t contributors) {
  return policy.goal_contributors != 0 && contributors >= policy.goal_contributors;
}

std::optional<SealReason> ReasonToClose(const RoundPolicy& policy, const RoundProgress& progress) {
  if (GoalReached(policy, progress.contributors)) {
    const bool full =
        policy.max_contributors != 0 && progress.contributors >= policy.max_contributors;
    // A full round does not wait for the grace period, since no contributor could use it.
    if (full || progress.until_grace_end.value_or(policy.grace) <= milliseconds(0)) {
      return SealReason::kGoal;
    }
  }
  if (progress.until_deadline.has_value() && *progress.until_deadline <= milliseconds(0)) {
    return SealReason::kDeadline;
  }
  return std::nullopt;
}

std::optional<milliseconds> TimeLeft(const RoundProgress& progress) {
  if (!progress.until_grace_end.has_value()) return progress.until_deadline;
  return Earlier(progress.until_deadline, *progress.until_grace_end);
}

Closing HowToClose(const RoundPolicy& policy, SealReason reason, uint64_t contributors) {
  if (contributors >= policy.min_contributors) return Closing::kSeal;
  return reason == SealReason::kRequested ? Closing::kRefuse : Closing::kGiveUp;
}

}  // namespace sparseagg
