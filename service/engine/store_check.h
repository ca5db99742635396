// Checks everything that a store has kept: every checksum and every digest. Folds the stored
// updates of every round again on several back ends, whose results must agree in every bit with
// each other and with the published result.
#ifndef SPARSEAGG_SERVICE_ENGINE_STORE_CHECK_H_
#define SPARSEAGG_SERVICE_ENGINE_STORE_CHECK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "service/engine/round_state.h"
#include "service/store/store.h"
#include "sparse/backend.h"

namespace sparseagg {

struct RoundCheck {
  std::string name;
  RoundState state = RoundState::kOpen;
  uint64_t contributors = 0;
  uint64_t bytes_received = 0;
  std::string result_digest;  // SHA-256 of the result, or of the result so far; empty: none
  std::string problem;        // empty: the round is sound
};

// Changes nothing. REQUIRES: no other thread uses the store.
std::vector<RoundCheck> CheckStore(UpdateStore& store,
                                   std::span<const std::unique_ptr<Backend>> backends);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_STORE_CHECK_H_
