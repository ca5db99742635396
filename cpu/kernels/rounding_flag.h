// The processor's sticky flag "inexact" (IEEE 754), which says that a floating-point operation was
// rounded. Each thread has its own. Reading it waits for the operations before it; reading it once
// for many additions costs less than computing the error of each.
#ifndef SPARSEAGG_CPU_KERNELS_ROUNDING_FLAG_H_
#define SPARSEAGG_CPU_KERNELS_ROUNDING_FLAG_H_

#include <cfenv>

namespace sparseagg {

class RoundingFlag {
 public:
  // Returns whether the flag works here. Some emulators do not implement it (Valgrind).
  static bool Works() { return kWorks; }

  // Covers the operations whose results were stored to memory before the call: the compiler cannot
  // move such stores behind it.
  static bool IsSet() { return std::fetestexcept(FE_INEXACT) != 0; }
  static void Clear() { std::feclearexcept(FE_INEXACT); }

 private:
  static bool Probe();

  static const bool kWorks;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_ROUNDING_FLAG_H_
