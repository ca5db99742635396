#include "cpu/kernels/rounding_flag.h"

namespace sparseagg {

const bool RoundingFlag::kWorks = RoundingFlag::Try();

bool RoundingFlag::Try() {
  volatile double sum = 1.0;
  Clear();
  sum = sum + 0x1p-52;
  const bool told_exact = !IsSet();
  sum = sum + 0x1p-53;
  const bool told_rounded = IsSet();
  Clear();
  return told_exact && told_rounded;
}

}  // namespace sparseagg
