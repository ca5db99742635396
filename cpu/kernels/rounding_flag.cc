#include "cpu/kernels/rounding_flag.h"

namespace sparseagg {

const bool RoundingFlag::kWorks = RoundingFlag::Probe();

bool RoundingFlag::Probe() {
  volatile double sum = 1.0;
  Clear();
  sum = sum + 0x1p-52;
  const bool saw_exact = !IsSet();
  sum = sum + 0x1p-53;
  const bool saw_rounded = IsSet();
  Clear();
  return saw_exact && saw_rounded;
}

}  // namespace sparseagg
