// A result and the memory that it takes: reserved as long as anybody has the result, also a reader
// whose round is deleted meanwhile, and who may be the last to go.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_HELD_RESULT_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_HELD_RESULT_H_

#include <memory>
#include <utility>

#include "service/engine/engine.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// The same result; `budgets` owns what `memory` was reserved from. REQUIRES: not null.
inline std::shared_ptr<const PublishedResult> HoldMemory(
    std::shared_ptr<const PublishedResult> result, Reservation memory,
    std::shared_ptr<const void> budgets) {
  struct Held {
    std::shared_ptr<const void> budgets;  // first: goes last
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
