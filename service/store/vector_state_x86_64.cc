#include "service/store/vector_state.h"

namespace sparseagg {

void ClearUpperHalves() {
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) asm volatile("vzeroupper");
}

}  // namespace sparseagg
