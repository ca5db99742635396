// Sorting in cache: Highway's VQSort on 64-bit keys, or two passes by digits where its vectors are
// short.
#ifndef SPARSEAGG_CPU_STATE_KEY_SORT_H_
#define SPARSEAGG_CPU_STATE_KEY_SORT_H_

#include <cstddef>
#include <cstdint>

#include "cpu/state/entries.h"

namespace sparseagg {

// Sorts keys in ascending order.
void SortKeys(uint64_t* keys, size_t n);

// The same for keys whose low `position_bits` bits are numbers that grow from each key to the next.
// Takes the faster of SortKeys() and SortByDigits().
void SortWithPositions(uint64_t* keys, size_t n, int position_bits);

// The same, by the bits above the positions: first by the highest digits, with two stable counting
// passes from the lower digit to the upper (LSD radix sort: Knuth, The Art of Computer Programming
// 3, 5.2.5), then by the remaining bits, where little is left to do unless keys cluster.
void SortByDigits(uint64_t* keys, size_t n, int position_bits);

// Returns whether keys are sorted in vectors of 64 bytes here (AVX-512).
bool SortsInLongVectors();

// Prepares `packed` for at most `capacity` entries of rows [begin, end). `width`, `value_bytes` and
// `row_bytes` are those of CpuKernels. The arrays of `packed` grow and never shrink.
void StartPacking(uint64_t begin, uint64_t end, size_t capacity, uint32_t width,
                  uint32_t value_bytes, uint32_t row_bytes, PackedWindow& packed);

// Sorts the packed entries by row.
void SortPacked(PackedWindow& packed);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_KEY_SORT_H_
