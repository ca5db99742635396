#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "sparse/streaming.h"

// Without AVX2 these are ordinary copies.
#define SPARSEAGG_AVX2 __attribute__((target("avx2")))

namespace sparseagg {
namespace {

constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kVectorBytes = sizeof(__m256i);

bool HasAvx2() {
  static const bool kHas = __builtin_cpu_supports("avx2") != 0;
  return kHas;
}

// Divides a copy of `count` elements to `to`: elements [first, end) fill whole cache lines of the
// destination; at least `before` elements before them, and the remainder, are copied one by one.
struct LineRange {
  uint64_t first;
  uint64_t end;
};
template <class T>
LineRange WholeLinesOf(const T* to, uint64_t count, uint64_t before) {
  constexpr uint64_t kPerLine = kLineBytes / sizeof(T);
  const uint64_t beyond = (reinterpret_cast<uintptr_t>(to + before) / sizeof(T)) % kPerLine;
  const uint64_t first = std::min(count, before + (kPerLine - beyond) % kPerLine);
  return {first, first + (count - first) / kPerLine * kPerLine};
}

SPARSEAGG_AVX2 __m256i Load(const char* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

SPARSEAGG_AVX2 void Stream(__m256i vector, void* to) {
  _mm256_stream_si256(static_cast<__m256i*>(to), vector);
}

SPARSEAGG_AVX2 void CopyLines(const char* from, uint64_t lines, char* to) {
  for (uint64_t i = 0; i < lines * kLineBytes; i += kVectorBytes) Stream(Load(from + i), to + i);
}

// Returns a word whose sign bit is set if the value is not finite: the largest exponent carries
// into it.
uint32_t NonFiniteBit(uint32_t bits) { return (bits & 0x7FFFFFFFu) + 0x00800000u; }

bool CopyEach(const char* from, uint64_t count, float* to) {
  uint32_t bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, from + i * sizeof(float), sizeof(bits));
    bad |= NonFiniteBit(bits);
    std::memcpy(to + i, &bits, sizeof(bits));
  }
  return bad >> 31 == 0;
}

// Copies whole lines. Returns true when all values are finite.
SPARSEAGG_AVX2 bool StreamFloatLines(const char* from, uint64_t count, float* to) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  const __m256i carry = _mm256_set1_epi32(0x00800000);
  __m256i bad = _mm256_setzero_si256();
  for (uint64_t i = 0; i < count; i += kVectorBytes / sizeof(float)) {
    const __m256i values = Load(from + i * sizeof(float));
    bad = _mm256_or_si256(bad, _mm256_add_epi32(_mm256_and_si256(values, magnitude), carry));
    Stream(values, to + i);
  }
  return _mm256_movemask_ps(_mm256_castsi256_ps(bad)) == 0;
}

// Operations on vectors of indices.
template <class Index>
struct IndexLanes {
  static constexpr bool kWide = sizeof(Index) == sizeof(uint64_t);

  SPARSEAGG_AVX2 static __m256i Splat(Index value) {
    if constexpr (kWide) return _mm256_set1_epi64x(value);
    return _mm256_set1_epi32(static_cast<int32_t>(value));
  }
  SPARSEAGG_AVX2 static __m256i Subtract(__m256i a, __m256i b) {
    return kWide ? _mm256_sub_epi64(a, b) : _mm256_sub_epi32(a, b);
  }
  SPARSEAGG_AVX2 static uint64_t AnySignBit(__m256i lanes) {
    const int signs = kWide ? _mm256_movemask_pd(_mm256_castsi256_pd(lanes))
                            : _mm256_movemask_ps(_mm256_castsi256_ps(lanes));
    return signs != 0 ? uint64_t{1} << 63 : 0;
  }
};

// RowFlags in vectors: a condition is the sign bit of a lane.
struct LaneFlags {
  __m256i out_of_range;
  __m256i descending;
  __m256i not_ascending;
};

// Loads the vector of rows at `from` and compares each with the index before it.
template <class Index>
SPARSEAGG_AVX2 __m256i LoadAndCheck(const char* from, __m256i highest, LaneFlags& flags) {
  const __m256i row = Load(from);
  const __m256i difference = IndexLanes<Index>::Subtract(row, Load(from - sizeof(Index)));
  const __m256i outside = _mm256_or_si256(row, IndexLanes<Index>::Subtract(highest, row));
  flags.out_of_range = _mm256_or_si256(flags.out_of_range, outside);
  flags.descending = _mm256_or_si256(flags.descending, difference);
  const __m256i above = IndexLanes<Index>::Subtract(difference, IndexLanes<Index>::Splat(1));
  flags.not_ascending = _mm256_or_si256(flags.not_ascending, above);
  return row;
}

// Returns the highest index in range; -1 when there are no rows.
template <class Index>
Index HighestIndex(uint64_t highest) {
  if (highest >> 63 != 0) return -1;
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<Index>::max());
  return static_cast<Index>(std::min(highest, kMax));
}

// Copies and checks one line of rows. REQUIRES: there is an index before `from`.
template <class Index>
SPARSEAGG_AVX2 void StreamLine(const char* from, __m256i highest, uint64_t* rows,
                               LaneFlags& flags) {
  constexpr uint64_t kLanes = kVectorBytes / sizeof(Index);
  for (uint64_t i = 0; i < kLineBytes / sizeof(*rows); i += kLanes) {
    const __m256i row = LoadAndCheck<Index>(from + i * sizeof(Index), highest, flags);
    if constexpr (IndexLanes<Index>::kWide) {
      Stream(row, rows + i);
    } else {  // negative indices are out of range, so that their conversion does not matter
      Stream(_mm256_cvtepu32_epi64(_mm256_castsi256_si128(row)), rows + i);
      Stream(_mm256_cvtepu32_epi64(_mm256_extracti128_si256(row, 1)), rows + i + kLanes / 2);
    }
  }
}

// Returns the lower halves of eight u64: in each half of the vector two of `a` and two of `b`.
SPARSEAGG_AVX2 __m256i LowerHalves(__m256i a, __m256i b) {
  return _mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}

// Returns the lowest 16 bits of 16 u32: in each half of the vector four of `a` and four of `b`.
SPARSEAGG_AVX2 __m256i LowestBits(__m256i a, __m256i b) {
  // Packing saturates, which has no effect once the kept bits are sign-extended.
  return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_slli_epi32(a, 16), 16),
                            _mm256_srai_epi32(_mm256_slli_epi32(b, 16), 16));
}

template <class Index>
SPARSEAGG_AVX2 void StreamLine(const char* from, __m256i highest, uint16_t* rows,
                               LaneFlags& flags) {
  for (uint64_t i = 0; i < kLineBytes / sizeof(*rows); i += kVectorBytes / sizeof(*rows)) {
    const char* const at = from + i * sizeof(Index);
    const __m256i a = LoadAndCheck<Index>(at, highest, flags);
    const __m256i b = LoadAndCheck<Index>(at + kVectorBytes, highest, flags);
    if constexpr (IndexLanes<Index>::kWide) {
      const __m256i c = LoadAndCheck<Index>(at + 2 * kVectorBytes, highest, flags);
      const __m256i d = LoadAndCheck<Index>(at + 3 * kVectorBytes, highest, flags);
      const __m256i pairs = LowestBits(LowerHalves(a, b), LowerHalves(c, d));
      const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
      Stream(_mm256_permutevar8x32_epi32(pairs, in_order), rows + i);
    } else {
      constexpr int kInOrder = 0xD8;  // quarters 0, 2, 1, 3
      Stream(_mm256_permute4x64_epi64(LowestBits(a, b), kInOrder), rows + i);
    }
  }
}

// CopyRows() of whole lines. REQUIRES: there is an index before `from`.
template <class Index, class Row>
SPARSEAGG_AVX2 void StreamRowLines(const char* from, uint64_t count, uint64_t highest, Row* rows,
                                   RowFlags& flags) {
  const __m256i most = IndexLanes<Index>::Splat(HighestIndex<Index>(highest));
  LaneFlags lanes = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  for (uint64_t i = 0; i < count; i += kLineBytes / sizeof(Row)) {
    StreamLine<Index>(from + i * sizeof(Index), most, rows + i, lanes);
  }
  flags.out_of_range |= IndexLanes<Index>::AnySignBit(lanes.out_of_range);
  flags.descending |= IndexLanes<Index>::AnySignBit(lanes.descending);
  flags.not_ascending |= IndexLanes<Index>::AnySignBit(lanes.not_ascending);
}

}  // namespace

void StoreLinesNonTemporal(const void* from, uint64_t lines, void* to) {
  if (!HasAvx2()) {
    std::memcpy(to, from, lines * kLineBytes);
  } else {
    CopyLines(static_cast<const char*>(from), lines, static_cast<char*>(to));
  }
}

void FinishNonTemporalStores() { _mm_sfence(); }  // non-temporal stores are unordered without it

bool StreamFloats(const char* from, uint64_t count, float* to) {
  if (!HasAvx2()) return CopyEach(from, count, to);
  const LineRange lines = WholeLinesOf(to, count, 0);
  bool finite = CopyEach(from, lines.first, to);
  finite &= StreamFloatLines(from + lines.first * sizeof(float), lines.end - lines.first,
                             to + lines.first);
  finite &= CopyEach(from + lines.end * sizeof(float), count - lines.end, to + lines.end);
  FinishNonTemporalStores();
  return finite;
}

template <class Index, class Row>
void StreamRows(const char* from, uint64_t count, uint64_t highest, uint64_t last, Row* rows,
                RowFlags& flags) {
  if (!HasAvx2()) return CopyRows<Index>(from, count, highest, last, rows, flags);
  const LineRange lines = WholeLinesOf(rows, count, 1);  // every index in them has one before it
  CopyRows<Index>(from, lines.first, highest, last, rows, flags);
  StreamRowLines<Index>(from + lines.first * sizeof(Index), lines.end - lines.first, highest,
                        rows + lines.first, flags);
  if (lines.end < count) {
    CopyRows<Index>(from + lines.end * sizeof(Index), count - lines.end, highest,
                    static_cast<uint64_t>(IndexAt<Index>(from, lines.end - 1)), rows + lines.end,
                    flags);
  }
  FinishNonTemporalStores();
}

template void StreamRows<int32_t>(const char*, uint64_t, uint64_t, uint64_t, uint64_t*, RowFlags&);
template void StreamRows<int64_t>(const char*, uint64_t, uint64_t, uint64_t, uint64_t*, RowFlags&);
template void StreamRows<int32_t>(const char*, uint64_t, uint64_t, uint64_t, uint16_t*, RowFlags&);
template void StreamRows<int64_t>(const char*, uint64_t, uint64_t, uint64_t, uint16_t*, RowFlags&);

}  // namespace sparseagg
