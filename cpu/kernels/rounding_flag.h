// The processor's sticky flag that an operation on floating-point numbers was rounded (IEEE 754,
// "inexact"), which each thread has. Reading it waits for the operations before it: once for many
// additions that is less than to compute the error of each.
#ifndef SPARSEAGG_CPU_KERNELS_ROUNDING_FLAG_H_
#define SPARSEAGG_CPU_KERNELS_ROUNDING_FLAG_H_

#include <cfenv>

namespace sparseagg {

class RoundingFlag {
 public:
  // Whether it tells here. There are emulators that leave it out (Valgrind).
  static bool Works() { return kWorks; }

  // What was stored to memory before the call counts: the compiler cannot move stores behind it.
  static bool IsSet() { return std::fetestexcept(FE_INEXACT) != 0; }
  static void Clear() { std::feclearexcept(FE_INEXACT); }

 private:
  static bool Try();

  static const bool kWorks;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_ROUNDING_FLAG_H_
