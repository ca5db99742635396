#include "cpu/windowed/partition.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "sparse/float_format.h"

namespace sparseagg {
namespace {

constexpr uint64_t kPartEntries = uint64_t{1} << 16;  // about as many as a thread takes at a time
constexpr size_t kSlabBytes = size_t{4} << 20;
constexpr size_t kLine = 64;
// A span of its own for each weight and window pays from this many entries on.
constexpr uint64_t kEntriesPerWeight = 16;

// Returns the binary logarithm of the common size of all windows but the last one, if that is a
// power of two; otherwise 0.
int EvenBits(std::span<const RowWindow> windows) {
  const uint64_t rows = windows.front().end;
  if (windows.size() == 1 || !std::has_single_bit(rows)) return 0;
  for (const RowWindow& window : windows.first(windows.size() - 1)) {
    if (window.end - window.begin != rows) return 0;
  }
  return windows.back().end - windows.back().begin <= rows ? std::countr_zero(rows) : 0;
}

bool FitPacked(std::span<const RowWindow> windows) {
  return std::all_of(windows.begin(), windows.end(), [](const RowWindow& window) {
    return window.end - window.begin <= EntrySpan::kPackedRows;
  });
}

// An unsigned integer of kBytes bytes; of any size if kBytes is 0.
template <size_t kBytes>
using UintOf = std::conditional_t<kBytes == 2, uint16_t, uint32_t>;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Compares also the sign of a zero, which says whether a holder is counted already (Cursor).
bool IsSameWeight(float a, float b) { return BitCast<uint32_t>(a) == BitCast<uint32_t>(b); }

}  // namespace

WindowIndex::WindowIndex(std::span<const RowWindow> windows) {
  even_bits_ = EvenBits(windows);
  if (even_bits_ != 0) return;
  for (const RowWindow& window : windows) begins_.push_back(window.begin);
  begins_.push_back(windows.back().end);
  // The table covers rows between the first and the last border; rows outside belong to the first
  // or last window.
  base_ = windows.size() > 1 ? begins_[1] : 0;
  const uint64_t span = windows.size() > 1 ? begins_[windows.size() - 1] - base_ : 0;
  bits_ = std::clamp(static_cast<int>(std::bit_width(windows.size())), 4, 11);
  last_bucket_ = BucketOf(span);
  uint32_t window = 0;
  for (uint64_t bucket = 0; bucket <= last_bucket_; ++bucket) {
    // Rows before the base are looked up in bucket 0, so it starts with the first window.
    const uint64_t row = bucket == 0 ? 0 : base_ + DistanceOf(bucket);
    while (window + 1 < windows.size() && row >= begins_[window + 1]) ++window;
    first_.push_back(window);
  }
  first_.push_back(static_cast<uint32_t>(windows.size() - 1));
}

uint32_t WindowIndex::Search(uint64_t row, uint32_t window, uint32_t last) const {
  const auto begin = begins_.begin() + window + 1;
  return window +
         static_cast<uint32_t>(std::upper_bound(begin, begins_.begin() + last + 1, row) - begin);
}

Partition::Partition(const TensorLayout& layout, size_t value_bytes,
                     std::span<const RowWindow> windows, Parallel& parallel)
    : layout_(layout),
      value_bytes_(value_bytes),
      parallel_(parallel),
      index_(windows),
      num_windows_(windows.size()),
      can_pack_(layout.row_width == 1 && value_bytes <= EntrySpan::kPackedBytes &&
                FitPacked(windows)) {}

void Partition::Distribute(std::span<const Cursor> cursors,
                           const std::function<std::span<std::byte>(size_t)>& done) {
  std::vector<Part> parts;
  std::vector<size_t> task_ends;  // in `parts`: what a thread takes at a time
  std::vector<std::atomic<uint32_t>> left(cursors.size());
  uint64_t entries = 0;
  uint64_t in_task = 0;
  uint64_t weights = 1;  // changes of the weight
  for (size_t k = 0; k < cursors.size(); ++k) {
    const Cursor& cursor = cursors[k];
    if (k > 0 && !IsSameWeight(cursor.weight, cursors[k - 1].weight)) ++weights;
    entries += cursor.size();
    for (uint64_t begin = 0; begin < cursor.size(); begin += kPartEntries) {
      parts.push_back({k, begin, std::min(cursor.size(), begin + kPartEntries)});
      left[k].fetch_add(1, std::memory_order_relaxed);
      in_task += parts.back().end - begin;
      if (in_task < kPartEntries) continue;
      task_ends.push_back(parts.size());
      in_task = 0;
    }
  }
  if (in_task > 0) task_ends.push_back(parts.size());
  const uint32_t threads = parallel_.threads();
  weight_each_ = entries < kEntriesPerWeight * weights * num_windows_;
  packed_ = can_pack_ && !weight_each_;
  // Half a span of each window and thread stays unused: a quarter of all entries at most.
  span_entries_ = static_cast<uint32_t>(
      std::clamp<uint64_t>(entries / (num_windows_ * threads * 4 + 1), 16, 2048) & ~uint64_t{15});
  writers_.resize(threads);
  std::atomic<size_t> next{0};
  parallel_.For(threads, [&](size_t t) {
    Writer& writer = writers_[t];
    writer.spans.resize(num_windows_);
    writer.tails.resize(num_windows_);
    std::vector<std::span<std::byte>> spare;
    for (size_t i = next.fetch_add(1); i < task_ends.size(); i = next.fetch_add(1)) {
      for (size_t p = i == 0 ? 0 : task_ends[i - 1]; p < task_ends[i]; ++p) {
        const size_t k = parts[p].cursor;
        WritePart(cursors[k], parts[p], writer);
        if (left[k].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        const std::span<std::byte> memory = done(k);
        if (memory.size() >= SpanBytes()) spare.push_back(memory);
      }
      const std::lock_guard lock(mutex_);
      spare_.insert(spare_.end(), spare.begin(), spare.end());
      spare.clear();
    }
    for (size_t w = 0; w < num_windows_; ++w) {
      if (!writer.spans[w].empty()) writer.spans[w].back().size -= writer.tails[w].left;
    }
  });
}

std::span<std::byte> Partition::NewSlab(size_t bytes_min) {
  const std::lock_guard lock(mutex_);
  while (!spare_.empty()) {
    const std::span<std::byte> slab = spare_.back();
    spare_.pop_back();
    if (slab.size() >= bytes_min) return slab;
  }
  own_slabs_.emplace_back(std::max(kSlabBytes, bytes_min));
  return own_slabs_.back();
}

size_t Partition::RowsBytes() const { return RoundUp(span_entries_ * sizeof(uint64_t), kLine); }
size_t Partition::ValuesBytes() const {
  if (packed_) return 0;
  return RoundUp(span_entries_ * (layout_.row_width > 1 ? sizeof(RowRef) : value_bytes_), kLine);
}
size_t Partition::WeightsBytes() const {
  const bool each = layout_.row_width == 1 && weight_each_;
  return each ? RoundUp(span_entries_ * sizeof(float), kLine) : 0;
}
size_t Partition::SpanBytes() const { return RowsBytes() + ValuesBytes() + WeightsBytes(); }

Partition::Tail& Partition::NewSpan(Writer& writer, uint32_t window, float weight) {
  const size_t bytes = SpanBytes();
  if (writer.slab.size() < bytes) writer.slab = NewSlab(bytes);
  std::byte* at = writer.slab.data();
  writer.slab = writer.slab.subspan(bytes);
  std::byte* values = packed_ ? nullptr : at + RowsBytes();
  float* weights = WeightsBytes() == 0 ? nullptr : reinterpret_cast<float*>(values + ValuesBytes());
  // When all entries are written, what is left of the last span is subtracted from its size.
  auto* rows = reinterpret_cast<uint64_t*>(at);
  writer.spans[window].push_back({rows, values, weights, weight, span_entries_});
  writer.tails[window] = {rows, values, weights, span_entries_, weight};
  return writer.tails[window];
}

// Continues in the same memory, as a span of its own.
Partition::Tail& Partition::NewWeight(Writer& writer, uint32_t window, float weight) {
  Tail& tail = writer.tails[window];
  writer.spans[window].back().size -= tail.left;
  writer.spans[window].push_back({tail.rows, tail.values, nullptr, weight, tail.left});
  tail.weight = weight;
  return tail;
}

inline Partition::Tail& Partition::TailOf(Writer& writer, uint32_t window, float weight) {
  Tail& tail = writer.tails[window];
  if (tail.left == 0) return NewSpan(writer, window, weight);
  const bool same = IsSameWeight(tail.weight, weight);
  return same || weight_each_ || layout_.row_width > 1 ? tail : NewWeight(writer, window, weight);
}

void Partition::WritePart(const Cursor& cursor, const Part& part, Writer& writer) {
  if (layout_.row_width > 1) return WriteRefs(cursor, part, writer);
  switch (value_bytes_) {
    case 0:
      return packed_ ? WritePacked<0>(cursor, part, writer) : Write<0>(cursor, part, writer);
    case 2:
      return packed_ ? WritePacked<2>(cursor, part, writer) : Write<2>(cursor, part, writer);
    case 4:
      return packed_ ? WritePacked<4>(cursor, part, writer) : Write<4>(cursor, part, writer);
    default:
      return Write<8>(cursor, part, writer);
  }
}

template <size_t kValueBytes>
void Partition::WritePacked(const Cursor& cursor, const Part& part, Writer& writer) {
  for (uint64_t i = part.begin; i < part.end; ++i) {
    const uint64_t row = cursor.row[i];
    UintOf<kValueBytes> value = 0;
    if constexpr (kValueBytes > 0) std::memcpy(&value, cursor.value + i * kValueBytes, kValueBytes);
    Tail& tail = TailOf(writer, index_.Find(row), cursor.weight);
    *tail.rows++ = uint64_t{value} << 32 | static_cast<uint32_t>(row);
    --tail.left;
  }
}

template <size_t kValueBytes>
void Partition::Write(const Cursor& cursor, const Part& part, Writer& writer) {
  for (uint64_t i = part.begin; i < part.end; ++i) {
    const uint64_t row = cursor.row[i];
    const uint32_t w = index_.Find(row);
    Tail& tail = TailOf(writer, w, cursor.weight);
    *tail.rows++ = row;
    if (kValueBytes > 0) {
      std::memcpy(tail.values, cursor.value + i * kValueBytes, kValueBytes);
      tail.values += kValueBytes;
    }
    if (weight_each_) *tail.weights++ = cursor.weight;
    --tail.left;
  }
}

void Partition::WriteRefs(const Cursor& cursor, const Part& part, Writer& writer) {
  const size_t row_bytes = layout_.row_bytes();
  for (uint64_t i = part.begin; i < part.end; ++i) {
    const uint64_t row = cursor.row[i];
    const uint32_t w = index_.Find(row);
    Tail& tail = TailOf(writer, w, cursor.weight);
    *tail.rows++ = row;
    *reinterpret_cast<RowRef*>(tail.values) = {cursor.value + i * row_bytes, nullptr,
                                               cursor.weight};
    tail.values += sizeof(RowRef);
    --tail.left;
  }
}

void Partition::Read(size_t w, std::vector<EntrySpan>& spans) const {
  spans.clear();
  for (const Writer& writer : writers_) {
    spans.insert(spans.end(), writer.spans[w].begin(), writer.spans[w].end());
  }
}

void Partition::Read(size_t w, std::vector<RefSpan>& spans) const {
  spans.clear();
  for (const Writer& writer : writers_) {
    for (const EntrySpan& span : writer.spans[w]) {
      spans.push_back({span.rows, reinterpret_cast<const RowRef*>(span.values), span.size});
    }
  }
}

uint64_t Partition::EntriesOf(size_t w) const {
  uint64_t entries = 0;
  for (const Writer& writer : writers_) {
    for (const EntrySpan& span : writer.spans[w]) entries += span.size;
  }
  return entries;
}

}  // namespace sparseagg
