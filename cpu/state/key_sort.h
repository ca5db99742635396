// Sorting in cache: Highway's VQSort on 64-bit keys, or two passes by digits where its vectors are
// short.
#ifndef SPARSEAGG_CPU_STATE_KEY_SORT_H_
#define SPARSEAGG_CPU_STATE_KEY_SORT_H_

#include <cstddef>
#include <cstdint>

#include "cpu/state/entries.h"

namespace sparseagg {

// Ascending.
void SortKeys(uint64_t* keys, size_t n);

// Ascending; of keys that carry in their low bits, `position_bits` of them, numbers that grow from
// each key to the next. The faster of the two ways below.
void SortWithPositions(uint64_t* keys, size_t n, int position_bits);

// The same, by what is above the positions: the highest digits first by counting, in two stable
// passes from the lower to the upper (LSD radix sort: Knuth, The Art of Computer Programming 3,
// 5.2.5), then what these have left, which is little unless keys crowd.
void SortByDigits(uint64_t* keys, size_t n, int position_bits);

// Whether keys are sorted in vectors of 64 bytes here (AVX-512).
bool SortsInLongVectors();

// Makes `packed` ready for at most `capacity` entries of rows [begin, end). `width`, `value_bytes`
// and `row_bytes` as in CpuKernels. Grows, never shrinks.
void StartPacking(uint64_t begin, uint64_t end, size_t capacity, uint32_t width,
                  uint32_t value_bytes, uint32_t row_bytes, PackedWindow& packed);

// Sorts the packed entries by row.
void SortPacked(PackedWindow& packed);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_KEY_SORT_H_
