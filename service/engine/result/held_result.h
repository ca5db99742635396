// Ties a result to the reservation for its memory, which lasts as long as any reader has the
// result, even if its round is deleted or the engine is destroyed before.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_HELD_RESULT_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_HELD_RESULT_H_

#include <memory>
#include <utility>

#include "service/engine/memory/admission.h"
#include "service/engine/types.h"

namespace sparseagg {

// Returns the same result with shared ownership of `memory` and of `budgets`, which `memory` was
// reserved from. REQUIRES: not null.
inline std::shared_ptr<const PublishedResult> HoldMemory(
    std::shared_ptr<const PublishedResult> result, Reservation memory,
    std::shared_ptr<const void> budgets) {
  struct Held {
    std::shared_ptr<const void> budgets;  // first member: destroyed last
    Reservation memory;
    std::shared_ptr<const PublishedResult> result;
  };
  const PublishedResult* const address = result.get();
  return {
      std::make_shared<const Held>(Held{std::move(budgets), std::move(memory), std::move(result)}),
      address};
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_HELD_RESULT_H_
