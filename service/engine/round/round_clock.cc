#include "service/engine/round/round_clock.h"

#include <algorithm>

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

// Far more than the two clocks drift apart between two checks, far less than matters to a round.
constexpr std::chrono::seconds kWallClockSet{1};

RoundClock::Remaining Subtract(const RoundClock::Remaining& left,
                               std::chrono::nanoseconds elapsed) {
  if (!left.has_value()) return left;
  // Rounded up, so that it is not 0 too early.
  return std::chrono::ceil<milliseconds>(
      std::clamp<std::chrono::nanoseconds>(*left - elapsed, std::chrono::nanoseconds(0), *left));
}

}  // namespace

RoundClock::RoundClock(const RoundAnchor& stored, const Moment& now)
    : anchor_{now.wall, Subtract(stored.until_deadline, now.wall - stored.wall),
              Subtract(stored.until_grace_end, now.wall - stored.wall)},
      steady_(now.steady) {}

RoundClock::Remaining RoundClock::RemainingAt(const Remaining& left,
                                              std::chrono::steady_clock::time_point now) const {
  return Subtract(left, now - steady_);
}

void RoundClock::StartGrace(milliseconds grace, const Moment& now) {
  if (anchor_.until_grace_end.has_value()) return;
  AnchorAt(now);
  anchor_.until_grace_end = grace;
}

RoundClock::Remaining RoundClock::UntilDeadline(std::chrono::steady_clock::time_point now) const {
  return RemainingAt(anchor_.until_deadline, now);
}

RoundClock::Remaining RoundClock::UntilGraceEnd(std::chrono::steady_clock::time_point now) const {
  return RemainingAt(anchor_.until_grace_end, now);
}

std::optional<std::chrono::system_clock::time_point> RoundClock::CloseTime() const {
  const Remaining& deadline = anchor_.until_deadline;
  const Remaining& grace = anchor_.until_grace_end;
  if (!deadline.has_value() && !grace.has_value()) return std::nullopt;
  return anchor_.wall +
         std::min(deadline.value_or(milliseconds::max()), grace.value_or(milliseconds::max()));
}

bool RoundClock::WallClockWasSet(const Moment& now) const {
  const std::chrono::nanoseconds difference = (now.wall - anchor_.wall) - (now.steady - steady_);
  return difference > kWallClockSet || difference < -kWallClockSet;
}

const RoundAnchor& RoundClock::AnchorAt(const Moment& now) {
  anchor_ = {now.wall, RemainingAt(anchor_.until_deadline, now.steady),
             RemainingAt(anchor_.until_grace_end, now.steady)};
  steady_ = now.steady;
  return anchor_;
}

}  // namespace sparseagg
