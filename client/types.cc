#include "client/types.h"

namespace sparseagg::client {

std::string_view RoundStateName(RoundState state) {
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

bool IsFinal(RoundState state) {
  return state != RoundState::kOpen && state != RoundState::kSealed;
}

std::string_view SealReasonName(SealReason reason) {
  switch (reason) {
    case SealReason::kNone:
      return "";
    case SealReason::kRequested:
      return "REQUESTED";
    case SealReason::kGoal:
      return "GOAL";
    case SealReason::kDeadline:
      return "DEADLINE";
  }
  return "UNKNOWN";
}

std::string_view DurabilityName(Durability durability) {
  switch (durability) {
    case Durability::kServerDefault:
      return "default";
    case Durability::kMemory:
      return "memory";
    case Durability::kDurable:
      return "durable";
  }
  return "unknown";
}

}  // namespace sparseagg::client
