// How long a round is still open. While the server runs, time is counted on the steady clock: a
// wall clock that is set does not move a deadline. What is stored is an anchor, the time left at a
// moment of the wall clock, so that the time between two processes is counted on the wall clock. It
// counts as nothing when that went back, and never makes more of the time left than there was.
//
//   created           server ends       starts again        closed
//   |---- steady -----|---- wall -------|---- steady -------|
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_CLOCK_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_CLOCK_H_

#include <chrono>
#include <optional>

#include "service/engine/recovery/round_anchor.h"

namespace sparseagg {

// Both clocks at one moment.
struct Moment {
  std::chrono::system_clock::time_point wall;
  std::chrono::steady_clock::time_point steady;
};

// Thread-compatible.
class RoundClock {
 public:
  using Left = RoundAnchor::Left;

  // An open round without an end.
  RoundClock() = default;
  // Starts at `now`.
  RoundClock(Left until_deadline, const Moment& now)
      : anchor_{now.wall, until_deadline, {}}, steady_(now.steady) {}
  // Goes on after a restart at `now`.
  RoundClock(const RoundAnchor& stored, const Moment& now);

  // The goal is reached; a second call changes nothing.
  void StartGrace(std::chrono::milliseconds grace, const Moment& now);

  Left UntilDeadline(std::chrono::steady_clock::time_point now) const;
  Left UntilGraceEnd(std::chrono::steady_clock::time_point now) const;
  // The earlier of both ends on the wall clock, as of the anchor.
  std::optional<std::chrono::system_clock::time_point> CloseTime() const;

  // Whether somebody set the wall clock since the anchor: then what is stored would be read wrongly
  // after a restart, and a new anchor is due.
  bool WallClockWasSet(const Moment& now) const;
  // Moves the anchor to `now`; the time left stays.
  const RoundAnchor& AnchorAt(const Moment& now);
  const RoundAnchor& anchor() const { return anchor_; }

 private:
  Left After(const Left& left, std::chrono::steady_clock::time_point now) const;

  RoundAnchor anchor_;
  std::chrono::steady_clock::time_point steady_;  // of the anchor
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_CLOCK_H_
