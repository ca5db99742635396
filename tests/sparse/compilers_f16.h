// The compiler's own f16, as a reference that is independent of sparse/float_format.h.
#ifndef SPARSEAGG_TESTS_SPARSE_COMPILERS_F16_H_
#define SPARSEAGG_TESTS_SPARSE_COMPILERS_F16_H_

#include <cstdint>
#include <cstring>

namespace sparseagg::testing {

#ifdef __clang__
using CompilersF16 = __fp16;  // It can be neither passed to a function nor returned.
#else
// g++ 12 calls the type _Float16 or, for ARM, __fp16: its machine mode is the same.
using CompilersF16 __attribute__((mode(HF))) = float;
#endif

// Returns the bits of the f16 to which the compiler rounds `value`.
inline uint16_t F16BitsByCompiler(double value) {
  const auto narrow = static_cast<CompilersF16>(value);
  uint16_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof(bits));
  return bits;
}

inline double F16WidenedByCompiler(uint16_t bits) {
  CompilersF16 narrow = 0;
  std::memcpy(&narrow, &bits, sizeof(bits));
  return static_cast<double>(narrow);
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SPARSE_COMPILERS_F16_H_
