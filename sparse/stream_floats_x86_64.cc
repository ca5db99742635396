#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sparse/stream_floats.h"

namespace sparseagg {
namespace {

constexpr uint64_t kLineFloats = 16;

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

}  // namespace

bool StreamFloats(const char* from, uint64_t count, float* to) {
  const uint64_t beyond_line = reinterpret_cast<uintptr_t>(to) / sizeof(float) % kLineFloats;
  const uint64_t first = std::min(count, (kLineFloats - beyond_line) % kLineFloats);
  bool finite = CopyEach(from, first, to);
  __m128i bad = _mm_setzero_si128();
  uint64_t i = first;
  for (; i + kLineFloats <= count; i += kLineFloats) {
    for (uint64_t k = i; k < i + kLineFloats; k += 4) {
      const __m128i values =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k * sizeof(float)));
      bad = _mm_or_si128(bad, Badness(values));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), values);
    }
  }
  finite &= _mm_movemask_ps(_mm_castsi128_ps(bad)) == 0;
  finite &= CopyEach(from + i * sizeof(float), count - i, to + i);
  _mm_sfence();  // streamed writes are seen in no order without it
  return finite;
}

}  // namespace sparseagg
