#include "cpu/key_sort.h"

#include <hwy/contrib/sort/vqsort.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>

namespace sparseagg {
namespace {

template <class T>
void Grow(HostVector<T>& vector, size_t size) {
  if (vector.size() < size) vector.resize(size);
}

}  // namespace

void SortKeys(uint64_t* keys, size_t n) {
  // The sorter owns a buffer that one thread at a time may use.
  thread_local const hwy::Sorter sorter;
  sorter(keys, n, hwy::SortAscending());
}

bool SortsInLongVectors() { return (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX3_DL)) != 0; }

void StartPacking(uint64_t begin, uint64_t end, size_t capacity, uint32_t width,
                  uint32_t value_bytes, uint32_t row_bytes, PackedWindow& packed) {
  packed.begin = begin;
  packed.size = 0;
  packed.capacity = capacity;
  packed.position_bits = std::max(1, static_cast<int>(std::bit_width(capacity - 1)));
  packed.drop =
      std::max(0, static_cast<int>(std::bit_width(end - begin - 1)) + packed.position_bits - 64);
  Grow(packed.keys, capacity);
  if (packed.drop > 0) Grow(packed.rows, capacity);
  if (width == 1) {
    Grow(packed.values, capacity * value_bytes);
    Grow(packed.row_cells, capacity * row_bytes);
  } else {
    Grow(packed.refs, capacity);
  }
}

void SortPacked(PackedWindow& packed) {
  uint64_t* keys = packed.keys.data();
  SortKeys(keys, packed.size);
  if (packed.drop == 0) return;
  // Rows whose keys differ in the position only may still be out of order.
  const auto bucket = [&](size_t i) { return keys[i] >> packed.position_bits; };
  for (size_t i = 0; i < packed.size;) {
    size_t end = i + 1;
    while (end < packed.size && bucket(end) == bucket(i)) ++end;
    const auto before = [&](uint64_t a, uint64_t b) { return packed.RowOf(a) < packed.RowOf(b); };
    if (end - i > 1 && !std::is_sorted(keys + i, keys + end, before)) {
      std::sort(keys + i, keys + end, before);
    }
    i = end;
  }
}

}  // namespace sparseagg
