// A back end in front of another one that takes over: when the processor of the first fails, or has
// no memory left, open reductions go on with the second, with the same bits. For that, staged
// updates are kept until the result, or until there are so many that the state is fetched instead.
//
//   Accumulate -> kept + first -> fault? -> second: Merge(fetched state), Accumulate(what was kept)
#ifndef SPARSEAGG_SPARSE_FAILOVER_BACKEND_H_
#define SPARSEAGG_SPARSE_FAILOVER_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "sparse/backend.h"

namespace sparseagg {

struct FailoverOptions {
  // Called once, by the thread that meets the fault, when the first back end's processor is lost.
  std::function<void(const absl::Status& fault)> on_loss;
  // Bytes of updates that an aggregator keeps, at least, before it fetches its state.
  uint64_t kept_bytes_min = uint64_t{1} << 30;
};

// Whether an aggregator's error is one of its processor's, not of what it was given: UNAVAILABLE
// (the processor is lost), or memory that has run out.
bool IsProcessorFault(const absl::Status& status);

// Has the name and the plans of `first`. health() tells when that is lost.
std::unique_ptr<Backend> MakeFailoverBackend(std::unique_ptr<Backend> first,
                                             std::unique_ptr<Backend> second,
                                             FailoverOptions options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_FAILOVER_BACKEND_H_
