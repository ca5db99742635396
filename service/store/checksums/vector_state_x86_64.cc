#include "service/store/checksums/vector_state.h"

namespace sparseagg {

void ClearUpperHalves() {
  static const bool kHasAvx = __builtin_cpu_supports("avx");
  if (kHasAvx) asm volatile("vzeroupper");
}

}  // namespace sparseagg
