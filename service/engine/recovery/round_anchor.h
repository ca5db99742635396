// The stored form of a round's clock (service/engine/round/round_clock.h): the time that was left
// at one moment of the wall clock.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_ROUND_ANCHOR_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_ROUND_ANCHOR_H_

#include <chrono>
#include <optional>

namespace sparseagg {

struct RoundAnchor {
  using Remaining = std::optional<std::chrono::milliseconds>;  // never negative; nullopt: no end

  std::chrono::system_clock::time_point wall;
  Remaining until_deadline;
  Remaining until_grace_end;  // set once the round's goal is reached

  bool operator==(const RoundAnchor&) const = default;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_ROUND_ANCHOR_H_
