// The objects that the reductions of one device share.
#ifndef SPARSEAGG_CUDA_DEVICE_CONTEXT_H_
#define SPARSEAGG_CUDA_DEVICE_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "cuda/batch.h"
#include "cuda/memory/download.h"
#include "cuda/memory/result_memory.h"
#include "cuda/memory/staging.h"
#include "cuda/raii/late_count.h"
#include "cuda/raii/memory_pool.h"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

struct Context {
  // `pool` is of the thread's current device. `shared`: the staging memory of several devices;
  // without it the device has its own.
  Context(MemoryPool& pool, uint64_t pinned_bytes, std::shared_ptr<PinnedStaging> shared = nullptr)
      : queue(pool),
        results(std::make_shared<ResultMemory>(pinned_bytes / kResultsShare, pool.device())),
        downloads(*results),
        uploads(pool),
        staging_owner(shared != nullptr ? std::move(shared)
                                        : std::make_shared<PinnedStaging>(pinned_bytes)),
        staging(*staging_owner) {}

  // Of what may be locked for staging, so much more may be for results.
  static constexpr uint64_t kResultsShare = 4;

  Queue queue;                            // of all kernels; the device thread's
  std::shared_ptr<ResultMemory> results;  // thread-safe
  Downloads downloads;                    // the device thread's
  LateCount rows;   // of a state, with the end of a batch; the device thread's
  LateCount side;   // entries of a batch for the side table; the device thread's
  Uploads uploads;  // thread-safe by its mutex
  const std::shared_ptr<PinnedStaging> staging_owner;
  PinnedStaging& staging;  // thread-safe
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_CONTEXT_H_
