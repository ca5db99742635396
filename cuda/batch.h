// Updates on their way to the device: copied while others are still being staged, then seen by
// kernels as one batch.
#ifndef SPARSEAGG_CUDA_BATCH_H_
#define SPARSEAGG_CUDA_BATCH_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/kernels/batch.h"
#include "cuda/memory/staging.h"
#include "cuda/raii/queue.h"
#include "cuda/raii/stream.h"
#include "sparse/backend.h"

namespace sparseagg::gpu {

// An update that waits for its reduction, with at least one entry.
struct PendingUpdate {
  StagedUpdate staged;
  float weight = 0;
};

// The queue of all transfers to the device, shared by the tensors that are open.
struct Uploads {
  explicit Uploads(MemoryPool& pool) : queue(pool) {}
  std::mutex mutex;  // guards queue
  Queue queue;
  std::atomic<uint64_t> bytes{0};    // uploaded, or on their way
  std::atomic<uint64_t> waiting{0};  // bytes of all batches, which are not reduced yet
};

// For one thread at a time. Keeps the staged updates until it goes: a batch can be uploaded again.
// View(), Take() and the end of a batch that has been uploaded wait for the device, so they are for
// the device thread. Upload() does not: updates in ordinary memory, whose copies may wait, are left
// to View().
class Batch {
 public:
  Batch(Uploads& uploads, PinnedStaging& staging) : uploads_(uploads), staging_(staging) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Add(PendingUpdate update);
  const std::vector<PendingUpdate>& updates() const { return updates_; }
  uint64_t bytes() const { return bytes_; }  // of the entries
  uint64_t nnz() const { return nnz_; }
  // In page-locked memory, not yet uploaded.
  uint64_t bytes_to_upload() const { return pinned_bytes_ - uploaded_bytes_; }
  bool on_device() const { return uploaded_.has_value(); }  // some of it

  // Starts the transfer of what has been added in page-locked memory since the last call. Does not
  // wait. Throws CudaError.
  void Upload();
  // The whole batch on the device, for kernels queued on `queue` after the call. Valid as long as
  // the batch. REQUIRES: at least one update. Throws CudaError.
  BatchView View(Queue& queue);

  // Waits until the device has read what was staged, frees what is there, and gives the updates
  // back. Kernels that read the batch may still be queued, as after an exception: its device memory
  // is freed behind them. Throws CudaError.
  std::vector<PendingUpdate> Take();

 private:
  // Updates that lie one behind another, in one transfer on the queue of uploads.
  void UploadRange(size_t begin, size_t end);
  void UploadPageable(Queue& queue, size_t u);
  void UploadTable(Queue& queue, const std::vector<UpdateRef>& refs);

  Uploads& uploads_;
  PinnedStaging& staging_;
  std::vector<PendingUpdate> updates_;
  uint64_t bytes_ = 0;
  uint64_t nnz_ = 0;
  std::vector<bool> is_pinned_;  // each update
  uint64_t pinned_bytes_ = 0;    // of updates in page-locked memory
  uint64_t uploaded_bytes_ = 0;  // of those, on their way or there
  size_t looked_at_ = 0;         // updates that Upload() has seen
  // Where each of the updates seen begins on the device; null: not yet there.
  std::vector<const std::byte*> places_;
  std::vector<DeviceArray<std::byte>> slabs_;
  std::vector<std::byte> pageable_;  // a piece of an update on its way
  DeviceArray<UpdateRef> table_;
  PinnedStaging::Block staged_table_{nullptr, nullptr};
  Queue* reader_ = nullptr;        // that View() was for
  std::optional<Event> read_;      // the end of the kernels queued there
  std::optional<Event> uploaded_;  // the end of the last transfer from page-locked memory
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_BATCH_H_
