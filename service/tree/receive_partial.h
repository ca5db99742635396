// Receives a partial aggregate from a leaf into a round of this server, as an upload: a connection
// that breaks is resumed, and what is counted is not received again.
#ifndef SPARSEAGG_SERVICE_TREE_RECEIVE_PARTIAL_H_
#define SPARSEAGG_SERVICE_TREE_RECEIVE_PARTIAL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "service/engine/engine.h"
#include "service/tree/leaf_link.h"

namespace sparseagg {

// What is received, and where it goes.
struct PartialTransfer {
  std::string to;    // the own round, qualified
  std::string leaf;  // id; the sender is LeafSender(leaf)
  std::string from;  // name of the round at the leaf
  std::optional<RowRange> rows;
  uint64_t likely = 0;  // where it will probably go on
};

// Sets `partial` to what was received. Calls `on_received` with the end of what
// was added. Returns an error of the leaf, or sets `own` to one of the own round.
absl::Status ReceivePartial(Engine& engine, LeafLink& link, const PartialTransfer& transfer,
                            LeafPartial& partial,
                            const std::function<void(uint64_t end)>& on_received,
                            absl::Status& own);

// Returns whether the own round will refuse the same partial aggregate again.
bool IsRefusedForGood(const absl::Status& refusal);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_RECEIVE_PARTIAL_H_
