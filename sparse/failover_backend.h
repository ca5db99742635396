// A back end with a fallback: when the processor of the first back end fails or runs out of memory,
// open reductions continue on the second one, with the same bits. For that, staged updates are kept
// until the result is made, or until they exceed a limit; then the state of the first back end is
// fetched and replaces them.
//
//   Accumulate -> keep + first -> on a fault -> second: Merge(fetched state), Accumulate(kept ones)
#ifndef SPARSEAGG_SPARSE_FAILOVER_BACKEND_H_
#define SPARSEAGG_SPARSE_FAILOVER_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "sparse/backend.h"

namespace sparseagg {

struct FailoverOptions {
  // Called once, by the thread that detects the fault, when the first back end's processor is lost.
  std::function<void(const absl::Status& fault)> on_loss;
  // An aggregator keeps at least this many bytes of updates before it fetches its state.
  uint64_t kept_bytes_min = uint64_t{1} << 30;
};

// Returns whether an aggregator's error is caused by its processor, not by its input: UNAVAILABLE
// (the processor is lost) or RESOURCE_EXHAUSTED (its memory has run out), except TOO_MANY_ENTRIES.
bool IsProcessorFault(const absl::Status& status);

// The result has the name, the plans and the health() of `first`. Several back ends may share
// `second`.
std::unique_ptr<Backend> MakeFailoverBackend(std::unique_ptr<Backend> first,
                                             std::shared_ptr<Backend> second,
                                             FailoverOptions options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_FAILOVER_BACKEND_H_
