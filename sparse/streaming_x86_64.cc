#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "sparse/streaming.h"

namespace sparseagg {
namespace {

constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kLineFloats = kLineBytes / sizeof(float);
constexpr uint64_t kLineRows = kLineBytes / sizeof(uint64_t);

__m128i Load(const char* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }

// The sign bit is set of values that are not finite: the largest exponent carries into it.
__m128i Badness(__m128i values) {
  return _mm_add_epi32(_mm_and_si128(values, _mm_set1_epi32(0x7FFFFFFF)),
                       _mm_set1_epi32(0x00800000));
}

bool CopyEach(const char* from, uint64_t count, float* to) {
  __m128i bad = _mm_setzero_si128();
  for (uint64_t i = 0; i < count; ++i) {
    const __m128i value = _mm_loadu_si32(from + i * sizeof(float));
    bad = _mm_or_si128(bad, Badness(value));
    _mm_storeu_si32(to + i, value);
  }
  return (_mm_movemask_ps(_mm_castsi128_ps(bad)) & 1) == 0;
}

// RowsSeen in vectors: lanes whose sign bits say so.
template <class Index>
class RowsOf {
 public:
  explicit RowsOf(uint64_t highest) : highest_(Splat(Highest(highest))) {}

  // A line of rows. REQUIRES: an index before `from`.
  void Take(const char* from, uint64_t* rows) {
    constexpr uint64_t kLanes = sizeof(__m128i) / sizeof(Index);
    for (uint64_t k = 0; k < kLineRows; k += kLanes) {
      const __m128i row = Load(from + k * sizeof(Index));
      const __m128i before = Load(from + k * sizeof(Index) - sizeof(Index));
      const __m128i difference = Subtract(row, before);
      out_of_range_ = Or(out_of_range_, Or(row, Subtract(highest_, row)));
      below_last_ = Or(below_last_, difference);
      not_above_last_ = Or(not_above_last_, Subtract(difference, Splat(1)));
      Stream(row, rows + k);
    }
  }

  void AddTo(RowsSeen& seen) const {
    seen.out_of_range |= HighestBitIn(out_of_range_);
    seen.below_last |= HighestBitIn(below_last_);
    seen.not_above_last |= HighestBitIn(not_above_last_);
  }

 private:
  static constexpr bool kWide = sizeof(Index) == sizeof(uint64_t);
  // None is in range where there are no rows.
  static Index Highest(uint64_t highest) {
    if (highest >> 63 != 0) return -1;
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<Index>::max());
    return static_cast<Index>(std::min(highest, kMax));
  }
  static __m128i Splat(Index value) {
    if constexpr (kWide) return _mm_set1_epi64x(value);
    return _mm_set1_epi32(static_cast<int32_t>(value));
  }
  static __m128i Subtract(__m128i a, __m128i b) {
    return kWide ? _mm_sub_epi64(a, b) : _mm_sub_epi32(a, b);
  }
  static __m128i Or(__m128i a, __m128i b) { return _mm_or_si128(a, b); }
  // Negative indices are out of range: what becomes of them does not matter.
  static void Stream(__m128i row, uint64_t* to) {
    auto* at = reinterpret_cast<__m128i*>(to);
    if constexpr (kWide) {
      _mm_stream_si128(at, row);
    } else {
      _mm_stream_si128(at, _mm_unpacklo_epi32(row, _mm_setzero_si128()));
      _mm_stream_si128(at + 1, _mm_unpackhi_epi32(row, _mm_setzero_si128()));
    }
  }
  static uint64_t HighestBitIn(__m128i lanes) {
    const int signs =
        kWide ? _mm_movemask_pd(_mm_castsi128_pd(lanes)) : _mm_movemask_ps(_mm_castsi128_ps(lanes));
    return signs != 0 ? uint64_t{1} << 63 : 0;
  }

  const __m128i highest_;
  __m128i out_of_range_ = _mm_setzero_si128();
  __m128i below_last_ = _mm_setzero_si128();
  __m128i not_above_last_ = _mm_setzero_si128();
};

}  // namespace

bool StreamFloats(const char* from, uint64_t count, float* to) {
  const uint64_t beyond_line = reinterpret_cast<uintptr_t>(to) / sizeof(float) % kLineFloats;
  const uint64_t first = std::min(count, (kLineFloats - beyond_line) % kLineFloats);
  bool finite = CopyEach(from, first, to);
  __m128i bad = _mm_setzero_si128();
  uint64_t i = first;
  for (; i + kLineFloats <= count; i += kLineFloats) {
    for (uint64_t k = i; k < i + kLineFloats; k += 4) {
      const __m128i values = Load(from + k * sizeof(float));
      bad = _mm_or_si128(bad, Badness(values));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), values);
    }
  }
  finite &= _mm_movemask_ps(_mm_castsi128_ps(bad)) == 0;
  finite &= CopyEach(from + i * sizeof(float), count - i, to + i);
  _mm_sfence();  // streamed writes are seen in no order without it
  return finite;
}

template <class Index>
void StreamRows(const char* from, uint64_t count, uint64_t highest, uint64_t last, uint64_t* rows,
                RowsSeen& seen) {
  // At least one, so that all others have one before them.
  const uint64_t to_line =
      kLineRows - reinterpret_cast<uintptr_t>(rows) / sizeof(uint64_t) % kLineRows;
  const uint64_t first = std::min(count, to_line);
  CopyRows<Index>(from, first, highest, last, rows, seen);
  RowsOf<Index> lines(highest);
  uint64_t e = first;
  for (; e + kLineRows <= count; e += kLineRows) lines.Take(from + e * sizeof(Index), rows + e);
  lines.AddTo(seen);
  if (e < count) {
    CopyRows<Index>(from + e * sizeof(Index), count - e, highest,
                    static_cast<uint64_t>(IndexAt<Index>(from, e - 1)), rows + e, seen);
  }
  _mm_sfence();
}

template void StreamRows<int32_t>(const char*, uint64_t, uint64_t, uint64_t, uint64_t*, RowsSeen&);
template void StreamRows<int64_t>(const char*, uint64_t, uint64_t, uint64_t, uint64_t*, RowsSeen&);

}  // namespace sparseagg
