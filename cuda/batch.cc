#include "cuda/batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sparseagg::gpu {
namespace {

// Where an update lies: its rows, and its values right behind them.
const std::byte* MemoryOf(const PendingUpdate& update) {
  return reinterpret_cast<const std::byte*>(update.staged.entries.rows.wide());
}

constexpr uint64_t kSamples = 1024;
// An update in ordinary memory is copied in parts of at most this size.
constexpr size_t kPieceBytes = size_t{4} << 20;

// The share of the most frequent row among rows at even distances.
double HottestShare(const std::vector<PendingUpdate>& updates, uint64_t nnz) {
  std::vector<uint64_t> rows;
  const uint64_t stride = nnz / kSamples + 1;
  uint64_t next = 0;
  for (const PendingUpdate& update : updates) {
    const CooView entries = update.staged.entries.view();
    for (; next < entries.nnz; next += stride) rows.push_back(entries.rows.wide()[next]);
    next -= entries.nnz;
  }
  std::sort(rows.begin(), rows.end());
  size_t most = 0;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end] == rows[begin]) ++end;
    most = std::max(most, end - begin);
  }
  // A row that was met once may be any.
  return most > 1 ? static_cast<double>(most) / static_cast<double>(rows.size()) : 0;
}

}  // namespace

Batch::~Batch() {
  try {
    Take();
  } catch (const CudaError&) {  // the device is lost: it reads nothing any more that matters
  }
}

void Batch::Add(PendingUpdate update) {
  bytes_ += update.staged.bytes;
  uploads_.waiting.fetch_add(update.staged.bytes, std::memory_order_relaxed);
  nnz_ += update.staged.entries.nnz;
  is_pinned_.push_back(staging_.IsPinned(MemoryOf(update)));
  if (is_pinned_.back()) pinned_bytes_ += update.staged.bytes;
  updates_.push_back(std::move(update));
}

void Batch::Upload() {
  places_.resize(updates_.size());
  if (bytes_to_upload() == 0) return;
  const std::lock_guard lock(uploads_.mutex);
  if (!uploaded_.has_value()) uploaded_.emplace();
  // One transfer for updates that lie one behind another.
  for (size_t begin = looked_at_; begin < updates_.size(); begin = looked_at_) {
    size_t end = begin + 1;
    if (is_pinned_[begin]) {
      while (end < updates_.size() && is_pinned_[end] &&
             PinnedStaging::IsNext(MemoryOf(updates_[end - 1]), updates_[end - 1].staged.bytes,
                                   MemoryOf(updates_[end]))) {
        ++end;
      }
      UploadRange(begin, end);
    }
    looked_at_ = end;
  }
}

void Batch::UploadRange(size_t begin, size_t end) {
  const std::byte* from = MemoryOf(updates_[begin]);
  const std::byte* last = MemoryOf(updates_[end - 1]);
  const auto size = static_cast<size_t>(last + updates_[end - 1].staged.bytes - from);
  const DeviceArray<std::byte>& slab = slabs_.emplace_back(uploads_.queue, size);
  uploads_.queue.Upload(slab.data(), from, size);
  uploads_.bytes.fetch_add(size, std::memory_order_relaxed);
  uploaded_->Record(uploads_.queue.cuda_stream());
  for (size_t u = begin; u < end; ++u) {
    places_[u] = slab.data() + (MemoryOf(updates_[u]) - from);
    uploaded_bytes_ += updates_[u].staged.bytes;
  }
}

// On the queue of the kernels: nobody but the device thread waits there. Through memory of the
// batch's own: a thread that is given up in such a copy still reads what it copies from, and an
// update that is lent (sparse/failover_backend.h) may be gone then.
void Batch::UploadPageable(Queue& queue, size_t u) {
  const PendingUpdate& update = updates_[u];
  const DeviceArray<std::byte>& slab = slabs_.emplace_back(queue, update.staged.bytes);
  pageable_.resize(std::min(slab.size(), kPieceBytes));
  for (size_t begin = 0; begin < slab.size(); begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, slab.size() - begin);
    std::memcpy(pageable_.data(), MemoryOf(update) + begin, size);
    queue.UploadPageable(slab.data() + begin, pageable_.data(), size);
  }
  uploads_.bytes.fetch_add(slab.size(), std::memory_order_relaxed);
  places_[u] = slab.data();
}

void Batch::UploadTable(Queue& queue, const std::vector<UpdateRef>& refs) {
  table_ = DeviceArray<UpdateRef>(queue, refs.size());
  staged_table_ = staging_.Allocate(table_.bytes());
  if (staged_table_ == nullptr) {
    return queue.UploadPageable(table_.data(), refs.data(), refs.size());
  }
  if (!uploaded_.has_value()) uploaded_.emplace();
  std::memcpy(staged_table_.get(), refs.data(), table_.bytes());
  queue.Upload(table_.data(), static_cast<const UpdateRef*>(staged_table_.get()), refs.size());
  // Behind the transfers of updates, which this queue waits for.
  uploaded_->Record(queue.cuda_stream());
}

BatchView Batch::View(Queue& queue) {
  Upload();
  if (!read_.has_value()) read_.emplace();
  reader_ = &queue;
  if (uploaded_.has_value()) queue.stream().WaitFor(*uploaded_);
  std::vector<UpdateRef> refs;
  refs.reserve(updates_.size());
  EntryOrder order = EntryOrder::kCanonical;
  uint64_t first = 0;
  uint64_t nnz_max = 0;
  for (size_t u = 0; u < updates_.size(); ++u) {
    if (places_[u] == nullptr) UploadPageable(queue, u);
    const StagedUpdate& staged = updates_[u].staged;
    const uint64_t nnz = staged.entries.nnz;
    const auto* rows = reinterpret_cast<const uint64_t*>(places_[u]);
    refs.push_back({rows, rows + nnz, first, nnz, updates_[u].weight, staged.order});
    first += nnz;
    nnz_max = std::max(nnz_max, nnz);
    order = std::min(order, staged.order);
  }
  const TensorLayout& layout = updates_[0].staged.entries.layout;
  const double hottest_share = HottestShare(updates_, nnz_);
  UploadTable(queue, refs);
  return {.updates = table_.data(),
          .num_updates = static_cast<uint32_t>(refs.size()),
          .nnz = nnz_,
          .num_rows = layout.num_rows,
          .width = layout.row_width,
          .order = order,
          .hottest_share = hottest_share,
          .update_nnz_max = nnz_max};
}

std::vector<PendingUpdate> Batch::Take() {
  uploads_.waiting.fetch_sub(bytes_, std::memory_order_relaxed);
  bytes_ = 0;
  if (uploaded_.has_value()) {
    // Not for what others have queued behind it: their batches stay on the bus meanwhile.
    uploads_.queue.Wait(*uploaded_);
    uploaded_.reset();
  }
  if (reader_ != nullptr) read_->Record(reader_->cuda_stream());
  {
    const std::lock_guard lock(uploads_.mutex);
    // The device waits, not the host: where nothing went wrong the kernels have ended.
    if (reader_ != nullptr) uploads_.queue.stream().WaitFor(*read_);
    slabs_.clear();
  }
  reader_ = nullptr;
  table_.Reset();
  staged_table_.reset();
  places_.clear();
  is_pinned_.clear();
  pageable_ = {};
  looked_at_ = 0;
  nnz_ = pinned_bytes_ = uploaded_bytes_ = 0;
  return std::exchange(updates_, {});
}

}  // namespace sparseagg::gpu
