// Measures how long a round stays open. While the server runs, time is measured on the steady
// clock, so that setting the wall clock does not move a deadline. The store keeps an anchor, the
// time left at one moment of the wall clock, so that the time between two processes is measured on
// the wall clock. If the wall clock went back, that time counts as zero; the time left never
// increases.
//
//   created           server ends       starts again        closed
//   |---- steady -----|---- wall -------|---- steady -------|
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_CLOCK_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_CLOCK_H_

#include <chrono>
#include <optional>

#include "service/engine/recovery/round_anchor.h"

namespace sparseagg {

// A reading of both clocks at one moment.
struct Moment {
  std::chrono::system_clock::time_point wall;
  std::chrono::steady_clock::time_point steady;
};

// Thread-compatible.
class RoundClock {
 public:
  using Remaining = RoundAnchor::Remaining;

  // Creates the clock of an open round without an end.
  RoundClock() = default;
  // Creates the clock of a round that starts at `now`.
  RoundClock(Remaining until_deadline, const Moment& now)
      : anchor_{now.wall, until_deadline, {}}, steady_(now.steady) {}
  // Continues from a stored anchor after a restart at `now`.
  RoundClock(const RoundAnchor& stored, const Moment& now);

  // Starts the grace period. A second call changes nothing.
  void StartGrace(std::chrono::milliseconds grace, const Moment& now);

  Remaining UntilDeadline(std::chrono::steady_clock::time_point now) const;
  Remaining UntilGraceEnd(std::chrono::steady_clock::time_point now) const;
  // Returns the earlier of the two ends on the wall clock, computed from the anchor.
  std::optional<std::chrono::system_clock::time_point> CloseTime() const;

  // Returns whether the wall clock was set since the anchor. Then a restart would misread the
  // stored anchor, and a new one must be stored.
  bool WallClockWasSet(const Moment& now) const;
  // Moves the anchor to `now` without changing the time left.
  const RoundAnchor& AnchorAt(const Moment& now);
  const RoundAnchor& anchor() const { return anchor_; }

 private:
  Remaining RemainingAt(const Remaining& left, std::chrono::steady_clock::time_point now) const;

  RoundAnchor anchor_;
  std::chrono::steady_clock::time_point steady_;  // the moment of the anchor
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_CLOCK_H_
