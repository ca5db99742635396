// The life of a round as one table. Every change of a round's state goes through Next().
//
//   OPEN --seal--> SEALED --publish--> PUBLISHED --retire--> RETIRED
//
// An abort leads from OPEN or SEALED to ABORTED, and in a leaf's round from PUBLISHED (round.h).
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_STATE_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_STATE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace sparseagg {

enum class RoundState : uint8_t { kOpen = 1, kSealed, kPublished, kRetired, kAborted };
enum class RoundEvent : uint8_t { kSeal = 1, kPublish, kRetire, kAbort };

struct RoundTransition {
  RoundState from;
  RoundEvent event;
  RoundState to;
};

// Repeating a request that has taken effect is legal and changes nothing, so that a client may
// retry it.
inline constexpr RoundTransition kRoundTransitions[] = {
    {RoundState::kOpen, RoundEvent::kSeal, RoundState::kSealed},
    {RoundState::kOpen, RoundEvent::kAbort, RoundState::kAborted},
    {RoundState::kSealed, RoundEvent::kSeal, RoundState::kSealed},
    {RoundState::kSealed, RoundEvent::kPublish, RoundState::kPublished},
    {RoundState::kSealed, RoundEvent::kAbort, RoundState::kAborted},
    {RoundState::kPublished, RoundEvent::kSeal, RoundState::kPublished},
    {RoundState::kPublished, RoundEvent::kRetire, RoundState::kRetired},
    {RoundState::kRetired, RoundEvent::kRetire, RoundState::kRetired},
    {RoundState::kAborted, RoundEvent::kAbort, RoundState::kAborted},
};

// Returns the state after `event`, or nullopt if the event is not legal in `state`.
constexpr std::optional<RoundState> Next(RoundState state, RoundEvent event) {
  for (const RoundTransition& t : kRoundTransitions) {
    if (t.from == state && t.event == event) return t.to;
  }
  return std::nullopt;
}

// Returns whether no update, seal or publication can follow.
constexpr bool IsFinal(RoundState state) {
  return state == RoundState::kPublished || state == RoundState::kRetired ||
         state == RoundState::kAborted;
}

constexpr std::string_view RoundStateName(RoundState state) {
  switch (state) {
    case RoundState::kOpen:
      return "OPEN";
    case RoundState::kSealed:
      return "SEALED";
    case RoundState::kPublished:
      return "PUBLISHED";
    case RoundState::kRetired:
      return "RETIRED";
    case RoundState::kAborted:
      return "ABORTED";
  }
  return "UNKNOWN";
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_STATE_H_
