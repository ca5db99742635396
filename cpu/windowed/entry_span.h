// Entries of one window in any order, as a partition writes them.
#ifndef SPARSEAGG_CPU_WINDOWED_ENTRY_SPAN_H_
#define SPARSEAGG_CPU_WINDOWED_ENTRY_SPAN_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu/state/entries.h"

namespace sparseagg {

// Entries as arrays, or as packed words: each word has the lower half of a row and, above it, the
// bits of its value. Packed entries are two thirds as large, and are written to one place instead
// of two.
struct EntrySpan {
  static constexpr size_t kPackedBytes = 4;                   // of a value, at most
  static constexpr uint64_t kPackedRows = uint64_t{1} << 32;  // of a window, at most

  const uint64_t* rows = nullptr;     // or packed words
  const std::byte* values = nullptr;  // null: packed words
  const float* weights = nullptr;     // null: `weight` is that of all
  float weight = 1.0f;
  uint32_t size = 0;

  // Calls f(cursor) with cursors that together have all entries. `begin` is the window's first row;
  // `value_bytes` as in Partition.
  template <class F>
  void ForEachCursor(uint64_t begin, size_t value_bytes, const F& f) const {
    if (values == nullptr) {
      return value_bytes == 2 ? Unpack<uint16_t>(begin, f) : Unpack<uint32_t>(begin, f);
    }
    Cursor cursor{
        .row = rows, .end = rows + size, .value = values, .weights = weights, .weight = weight};
    f(cursor);
  }

 private:
  template <class Value, class F>
  void Unpack(uint64_t begin, const F& f) const;
};

template <class Value, class F>
void EntrySpan::Unpack(uint64_t begin, const F& f) const {
  // These arrays fit the first-level cache and leave room there for the kernels.
  constexpr size_t kBlock = 256;
  constexpr size_t kAhead = 192;
  constexpr size_t kPerLine = kLineBytes / sizeof(uint64_t);
  alignas(kLineBytes) std::array<uint64_t, kBlock> block_rows;
  alignas(kLineBytes) std::array<Value, kBlock> block_values;
  for (size_t at = 0; at < size; at += kBlock) {
    const size_t n = std::min(kBlock, size - at);
    for (size_t i = 0; i < n; i += kPerLine) PrefetchLine(rows + at + i + kAhead);
    for (size_t i = 0; i < n; ++i) {
      const uint64_t word = rows[at + i];
      block_rows[i] = begin + static_cast<uint32_t>(word - begin);
      block_values[i] = static_cast<Value>(word >> 32);
    }
    Cursor cursor{.row = block_rows.data(),
                  .end = block_rows.data() + n,
                  .value = reinterpret_cast<const std::byte*>(block_values.data()),
                  .weight = weight};
    f(cursor);
  }
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_ENTRY_SPAN_H_
