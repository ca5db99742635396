#include <cstring>

#include "sparse/stream_floats.h"

namespace sparseagg {

bool StreamFloats(const char* from, uint64_t count, float* to) {
  std::memcpy(to, from, count * sizeof(float));
  return count == 0;
}

}  // namespace sparseagg
