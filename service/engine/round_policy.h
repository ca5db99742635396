// What a round's creator decided about its end, and what follows from it at a moment: a pure
// function of the policy, the count of contributors and the time that is left. Times are durations
// here; round_clock.h measures them.
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

// Numbers are stored and on the wire: they never change.
enum class SealReason : uint8_t { kRequested = 1, kGoal = 2, kDeadline = 3 };
std::string_view SealReasonName(SealReason reason);  // "REQUESTED"

// 0 or nothing: no such limit. With none at all a round is open until somebody seals it.
struct RoundPolicy {
  uint64_t goal_contributors = 0;      // sealed when reached, after the grace
  std::chrono::milliseconds grace{0};  // how long updates are still accepted after that
  uint64_t min_contributors = 0;       // fewer give no result
  uint64_t max_contributors = 0;       // more are refused
  // At most one of them: the deadline.
  std::optional<std::chrono::milliseconds> open_for;  // after the creation
  std::optional<std::chrono::system_clock::time_point> open_until;

  bool operator==(const RoundPolicy&) const = default;
};

// Longest grace and longest time that a round may be open.
inline constexpr std::chrono::milliseconds kPolicyTimeMax = std::chrono::hours(24 * 3650);

// INVALID_ARGUMENT (INVALID_POLICY) for what contradicts itself or is beyond a limit; names the
// field and the limit.
absl::Status CheckPolicy(const RoundPolicy& policy, const Limits& limits);

// How long a round created at `now` is open at most; nothing: until it is sealed. INVALID_ARGUMENT
// (INVALID_POLICY) for a deadline that is not in the future, or beyond a limit.
absl::StatusOr<std::optional<std::chrono::milliseconds>> TimeOpen(
    const RoundPolicy& policy, const Limits& limits, std::chrono::system_clock::time_point now);

// Whether the round is over as soon as it has its goal.
bool EndsAtGoal(const RoundPolicy& policy);
// How many contributors are accepted; 0: any number. Without a grace no more than the goal.
uint64_t Capacity(const RoundPolicy& policy);

// Where an open round is.
struct RoundProgress {
  uint64_t contributors = 0;
  std::optional<std::chrono::milliseconds> until_deadline;
  std::optional<std::chrono::milliseconds> until_grace_end;  // from the moment the goal is reached
};

bool GoalReached(const RoundPolicy& policy, uint64_t contributors);

// Why the round is to be closed now, or nothing.
std::optional<SealReason> ReasonToClose(const RoundPolicy& policy, const RoundProgress& progress);
// How long nothing but another update can change that; nothing: for ever.
std::optional<std::chrono::milliseconds> TimeLeft(const RoundProgress& progress);

// What closing does.
enum class Closing : uint8_t {
  kSeal,
  kRefuse,  // requested below the minimum: the round stays open
  kGiveUp,  // the deadline, below the minimum: there will be no result
};
Closing HowToClose(const RoundPolicy& policy, SealReason reason, uint64_t contributors);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_POLICY_H_
