// Distributes entries in any order over windows of rows: one pass that reads every entry once and
// writes it into its window's spans, so that each window can then be reduced in cache.
#ifndef SPARSEAGG_CPU_WINDOWED_PARTITION_H_
#define SPARSEAGG_CPU_WINDOWED_PARTITION_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "base/host_device.h"
#include "cpu/parallel.h"
#include "cpu/state/entries.h"
#include "cpu/windowed/range_reducer.h"
#include "cpu/windowed/window_layout.h"
#include "sparse/types.h"

namespace sparseagg {

// Finds the window of a row: the row's leading bits give a bucket, whose few windows are then
// searched. Buckets are spaced like floating-point numbers, as many in every power of two: indices
// that cluster at the start of a huge index space find as fine buckets there as evenly spread ones
// do at its end.
class WindowIndex {
 public:
  explicit WindowIndex(std::span<const RowWindow> windows);

  uint32_t Find(uint64_t row) const {
    if (even_bits_ != 0) return static_cast<uint32_t>(row >> even_bits_);
    uint64_t bucket = row < base_ ? 0 : BucketOf(row - base_);
    bucket = bucket < last_bucket_ ? bucket : last_bucket_;
    uint32_t window = first_[bucket];
    const uint32_t last = first_[bucket + 1];
    if (last - window > kLinearMax) return Search(row, window, last);
    while (window < last && row >= begins_[window + 1]) ++window;
    return window;
  }

 private:
  static constexpr uint32_t kLinearMax = 8;

  // Distance / 2^exponent + exponent * 2^bits, with the exponent that leaves bits + 1 bits.
  uint64_t BucketOf(uint64_t distance) const {
    const int exponent = std::max(0, 63 - CountLeadingZeros(distance | 1) - bits_);
    return (static_cast<uint64_t>(exponent) << bits_) + (distance >> exponent);
  }
  uint64_t DistanceOf(uint64_t bucket) const {
    const uint64_t octave = bucket >> bits_;
    const uint64_t exponent = octave > 1 ? octave - 1 : 0;
    return (bucket - (exponent << bits_)) << exponent;
  }
  uint32_t Search(uint64_t row, uint32_t window, uint32_t last) const;

  int even_bits_ = 0;  // all windows but the last one have 2^even_bits_ rows; 0: they differ
  uint64_t base_ = 0;
  int bits_ = 0;
  uint64_t last_bucket_ = 0;
  std::vector<uint64_t> begins_;  // of the windows, and one more
  std::vector<uint32_t> first_;   // [buckets + 1]: the window of the bucket's first row
};

class Partition {
 public:
  // `value_bytes` is the size of a value, which is written with its row; 0 for none. Rows of
  // several values are written as references to them.
  Partition(const TensorLayout& layout, size_t value_bytes, std::span<const RowWindow> windows,
            Parallel& parallel);

  // Distributes the entries of all cursors. Calls done(k), from any thread, when cursor k has been
  // read for the last time; done(k) returns memory that the partition may write to from then on.
  void Distribute(std::span<const Cursor> cursors,
                  const std::function<std::span<std::byte>(size_t)>& done);

  // Reads the spans of window w: entries, or references for rows of several values.
  void Read(size_t w, std::vector<EntrySpan>& spans) const;
  void Read(size_t w, std::vector<RefSpan>& spans) const;
  uint64_t EntriesOf(size_t w) const;

 private:
  // The place of the next entry of a window.
  struct Tail {
    uint64_t* rows = nullptr;
    std::byte* values = nullptr;
    float* weights = nullptr;
    uint32_t left = 0;
    float weight = 0.0f;
  };
  // The output of one thread; spans[w] and tails[w] are those of window w.
  struct Writer {
    std::vector<std::vector<EntrySpan>> spans;  // `values` of wide rows are references
    std::vector<Tail> tails;
    std::span<std::byte> slab;  // its unused rest
  };
  struct Part {
    size_t cursor;
    uint64_t begin;
    uint64_t end;
  };

  // Bytes of the parts of a span: packed entries; or rows, then values or references, then
  // weights.
  size_t RowsBytes() const;
  size_t ValuesBytes() const;
  size_t WeightsBytes() const;
  size_t SpanBytes() const;

  Tail& NewSpan(Writer& writer, uint32_t window, float weight);
  Tail& NewWeight(Writer& writer, uint32_t window, float weight);
  Tail& TailOf(Writer& writer, uint32_t window, float weight);
  std::span<std::byte> NewSlab(size_t bytes_min);
  template <size_t kValueBytes>
  void WritePacked(const Cursor& cursor, const Part& part, Writer& writer);
  template <size_t kValueBytes>
  void Write(const Cursor& cursor, const Part& part, Writer& writer);
  void WriteRefs(const Cursor& cursor, const Part& part, Writer& writer);
  void WritePart(const Cursor& cursor, const Part& part, Writer& writer);

  const TensorLayout layout_;
  const size_t value_bytes_;
  Parallel& parallel_;
  const WindowIndex index_;
  const size_t num_windows_;
  const bool can_pack_;       // rows and values fit packed words
  bool packed_ = false;       // entries are packed words
  bool weight_each_ = false;  // otherwise a span ends where the weight changes
  uint32_t span_entries_ = 0;
  std::vector<Writer> writers_;
  std::mutex mutex_;
  std::vector<std::span<std::byte>> spare_;  // returned by done()
  std::vector<HostVector<std::byte>> own_slabs_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_PARTITION_H_
