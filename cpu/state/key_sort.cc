#include "cpu/state/key_sort.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "cpu/state/instruction_set.h"

namespace sparseagg {
namespace {

constexpr int kDigitBitsMax = 11;  // the counts of a pass are 16 KiB
// Fewer keys are not worth counting. More do not fit a cache, and two passes leave too much of them
// unsorted.
constexpr size_t kByDigitsMin = size_t{1} << 10;
constexpr size_t kByDigitsMax = size_t{1} << 20;
// Keys in the scratch memory that a thread keeps.
constexpr size_t kScratchKept = size_t{1} << 17;

template <class T>
void Grow(HostVector<T>& vector, size_t size) {
  if (vector.size() < size) vector.resize(size);
}

// One stable pass: writes the keys to `out`, ascending by `bits` bits from `shift` on. It works
// from both ends at once, with counts of its own for each: where most keys have the same digit, the
// processor would wait for the store of a single count before it can load it again.
void SortByDigit(const uint64_t* keys, size_t n, int shift, int bits, uint64_t* out) {
  std::array<uint32_t, size_t{1} << kDigitBitsMax> begins;
  std::array<uint32_t, size_t{1} << kDigitBitsMax> ends;
  const size_t digits = size_t{1} << bits;
  const auto digit = [&](size_t i) { return keys[i] >> shift & (digits - 1); };
  std::fill_n(begins.begin(), digits, 0);
  std::fill_n(ends.begin(), digits, 0);
  const size_t half = n / 2;
  for (size_t i = 0; i < half; ++i) {
    ++begins[digit(i)];
    ++ends[digit(n - 1 - i)];
  }
  if (n % 2 != 0) ++begins[digit(half)];
  uint32_t before = 0;
  for (size_t d = 0; d < digits; ++d) {
    const uint32_t begin = std::exchange(begins[d], before);
    ends[d] = before += begin + ends[d];
  }
  for (size_t i = 0; i < half; ++i) {
    out[begins[digit(i)]++] = keys[i];
    out[--ends[digit(n - 1 - i)]] = keys[n - 1 - i];
  }
  if (n % 2 != 0) out[begins[digit(half)]] = keys[half];
}

// Sorts keys that are in order by the bits above `shift`: only groups of equal upper bits that are
// out of order need work.
void SortWithinGroups(uint64_t* keys, size_t n, int shift) {
  constexpr size_t kFew = 16;
  for (size_t i = 1; i < n; ++i) {
    if (keys[i - 1] <= keys[i]) continue;
    const uint64_t group = keys[i] >> shift;
    size_t begin = i;
    while (begin > 0 && keys[begin - 1] >> shift == group) --begin;
    while (i < n && keys[i] >> shift == group) ++i;
    if (i - begin <= kFew) {
      std::sort(keys + begin, keys + i);
    } else {
      SortKeys(keys + begin, i - begin);
    }
  }
}

}  // namespace

void SortKeys(uint64_t* keys, size_t n) {
  // Constructed at each call, which takes 6 ns: the size of its buffer depends on the current
  // instruction set, which tests change.
  const hwy::Sorter sorter;
  sorter(keys, n, hwy::SortAscending());
}

void SortWithPositions(uint64_t* keys, size_t n, int position_bits) {
  const bool by_digits = !SortsInLongVectors() && n >= kByDigitsMin && n <= kByDigitsMax;
  by_digits ? SortByDigits(keys, n, position_bits) : SortKeys(keys, n);
}

void SortByDigits(uint64_t* keys, size_t n, int position_bits) {
  if (n == 0) return;
  thread_local HostVector<uint64_t> kept;
  HostVector<uint64_t> large;
  HostVector<uint64_t>& scratch = n <= kScratchKept ? kept : large;
  Grow(scratch, n);
  uint64_t differing = 0;
  for (size_t i = 0; i < n; ++i) differing |= keys[i] ^ keys[0];
  const int top = std::bit_width(differing);
  if (top <= position_bits) return;
  const int bits = std::min(top - position_bits, 2 * kDigitBitsMax);
  const int upper = bits > kDigitBitsMax ? bits / 2 : 0;
  SortByDigit(keys, n, top - bits, bits - upper, scratch.data());
  if (upper > 0) {
    SortByDigit(scratch.data(), n, top - upper, upper, keys);
  } else {
    std::copy_n(scratch.data(), n, keys);
  }
  if (top - bits > position_bits) SortWithinGroups(keys, n, top - bits);
}

bool SortsInLongVectors() { return VectorBytes() >= 64; }

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
  SortWithPositions(keys, packed.size, packed.position_bits);
  if (packed.drop == 0) return;
  // Rows whose keys differ only in the position may still be out of order.
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
