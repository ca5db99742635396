// Decides when a round ends: a pure function of the policy that its creator chose, the number of
// contributors and the time that is left. Times are durations here; round_clock.h measures them.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_POLICY_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_POLICY_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/limits.h"

namespace sparseagg {

// The numbers are stored and sent on the wire, so they never change.
enum class SealReason : uint8_t { kRequested = 1, kGoal = 2, kDeadline = 3 };
std::string_view SealReasonName(SealReason reason);  // "REQUESTED"

// A value of 0 or nullopt means no such limit. Without any limit, a round is open until a request
// seals it.
struct RoundPolicy {
  // The round is sealed when this number is reached, after the grace period.
  uint64_t goal_contributors = 0;
  std::chrono::milliseconds grace{0};  // how long updates are accepted after the goal
  uint64_t min_contributors = 0;       // with fewer there is no result
  uint64_t max_contributors = 0;       // more are refused
  // The deadline; at most one of the two is set.
  std::optional<std::chrono::milliseconds> open_for;  // counted from the creation
  std::optional<std::chrono::system_clock::time_point> open_until;
  // How long a root waits after the seal for a leaf that does not answer; nullopt: for ever.
  std::optional<std::chrono::milliseconds> leaf_wait;

  bool operator==(const RoundPolicy&) const = default;
};

// The longest grace period, and the longest time that a round may be open.
inline constexpr std::chrono::milliseconds kPolicyTimeMax = std::chrono::hours(24 * 3650);

// Returns INVALID_ARGUMENT (INVALID_POLICY), naming the field and the limit, if the policy
// contradicts itself or exceeds a limit.
absl::Status CheckPolicy(const RoundPolicy& policy, const Limits& limits);

// Returns how long a round created at `now` is open at most; nullopt: until it is sealed. Returns
// INVALID_ARGUMENT (INVALID_POLICY) for a deadline that is not in the future or exceeds a limit.
absl::StatusOr<std::optional<std::chrono::milliseconds>> TimeOpen(
    const RoundPolicy& policy, const Limits& limits, std::chrono::system_clock::time_point now);

// Returns whether the round ends as soon as it reaches its goal.
bool EndsAtGoal(const RoundPolicy& policy);
// Returns how many contributors are accepted; 0: any number. Without a grace period this is the
// goal.
uint64_t Capacity(const RoundPolicy& policy);

// The progress of an open round.
struct RoundProgress {
  uint64_t contributors = 0;
  std::optional<std::chrono::milliseconds> until_deadline;
  std::optional<std::chrono::milliseconds> until_grace_end;  // set once the goal is reached
};

bool GoalReached(const RoundPolicy& policy, uint64_t contributors);

// Returns the reason to close the round now, or nullopt.
std::optional<SealReason> ReasonToClose(const RoundPolicy& policy, const RoundProgress& progress);
// Returns how long ReasonToClose() cannot change without another update; nullopt: for ever.
std::optional<std::chrono::milliseconds> TimeLeft(const RoundProgress& progress);

// The effect of closing a round.
enum class Closing : uint8_t {
  kSeal,
  kRefuse,  // requested below the minimum: the round stays open
  kGiveUp,  // below the minimum at the deadline: the round is aborted
};
Closing HowToClose(const RoundPolicy& policy, SealReason reason, uint64_t contributors);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_POLICY_H_
