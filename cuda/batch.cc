#include "cuda/batch.h"

#include <algorithm>
#include <utility>

#include "cuda/staging.h"

namespace sparseagg::gpu {
namespace {

// Where an update lies: its rows, and its values right behind them.
const std::byte* MemoryOf(const PendingUpdate& update) {
  return reinterpret_cast<const std::byte*>(update.staged.entries.indices);
}

constexpr uint64_t kSamples = 1024;

// The share of the most frequent row among rows at even distances.
double HottestShare(const std::vector<PendingUpdate>& updates, uint64_t nnz) {
  std::vector<uint64_t> rows;
  const uint64_t stride = nnz / kSamples + 1;
  uint64_t next = 0;
  for (const PendingUpdate& update : updates) {
    const CooView entries = update.staged.entries.view();
    for (; next < entries.nnz; next += stride) rows.push_back(entries.indices[next]);
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
  nnz_ += update.staged.entries.nnz;
  updates_.push_back(std::move(update));
}

void Batch::Upload() {
  if (refs_.size() == updates_.size()) return;
  const std::lock_guard lock(uploads_.mutex);
  if (!uploaded_.has_value()) uploaded_.emplace();
  // One transfer for updates that lie one behind another.
  for (size_t begin = refs_.size(); begin < updates_.size();) {
    size_t end = begin + 1;
    while (end < updates_.size() &&
           PinnedStaging::IsNext(MemoryOf(updates_[end - 1]), updates_[end - 1].staged.bytes,
                                 MemoryOf(updates_[end]))) {
      ++end;
    }
    CopyRange(begin, end);
    begin = end;
  }
}

void Batch::CopyRange(size_t begin, size_t end) {
  const std::byte* from = MemoryOf(updates_[begin]);
  const std::byte* last = MemoryOf(updates_[end - 1]);
  const auto size = static_cast<size_t>(last + updates_[end - 1].staged.bytes - from);
  DeviceArray<std::byte> slab(uploads_.queue, size);
  uploads_.queue.Upload(slab.data(), from, size);
  uploaded_->Record(uploads_.queue.cuda_stream());
  for (size_t u = begin; u < end; ++u) {
    const PendingUpdate& update = updates_[u];
    const uint64_t nnz = update.staged.entries.nnz;
    const auto* rows = reinterpret_cast<const uint64_t*>(slab.data() + (MemoryOf(update) - from));
    const uint64_t first = refs_.empty() ? 0 : refs_.back().first + refs_.back().nnz;
    refs_.push_back({rows, rows + nnz, first, nnz, update.weight, update.staged.order});
    uploaded_bytes_ += update.staged.bytes;
  }
  slabs_.push_back(std::move(slab));
}

BatchView Batch::View(Queue& queue) {
  Upload();
  {
    const std::lock_guard lock(uploads_.mutex);
    table_ = DeviceArray<UpdateRef>(uploads_.queue, refs_.size());
    uploads_.queue.Upload(table_.data(), refs_.data(), refs_.size());
    uploaded_->Record(uploads_.queue.cuda_stream());
  }
  queue.stream().WaitFor(*uploaded_);
  const TensorLayout& layout = updates_[0].staged.entries.layout;
  EntryOrder order = EntryOrder::kCanonical;
  for (const UpdateRef& ref : refs_) order = std::min(order, ref.order);
  return {.updates = table_.data(),
          .num_updates = static_cast<uint32_t>(refs_.size()),
          .nnz = nnz_,
          .num_rows = layout.num_rows,
          .width = layout.row_width,
          .order = order,
          .hottest_share = HottestShare(updates_, nnz_)};
}

std::vector<PendingUpdate> Batch::Take() {
  if (uploaded_.has_value()) {
    // Not for what others have queued behind it: their batches stay on the bus meanwhile.
    uploads_.queue.Wait(*uploaded_);
    uploaded_.reset();
  }
  {
    const std::lock_guard lock(uploads_.mutex);
    slabs_.clear();
    table_.Reset();
  }
  refs_.clear();
  bytes_ = nnz_ = uploaded_bytes_ = 0;
  return std::exchange(updates_, {});
}

}  // namespace sparseagg::gpu
