#include "service/store/checksums/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "service/store/checksums/vector_state.h"

namespace sparseagg {

uint32_t Crc32c(std::string_view data, uint32_t crc) {
  // ISA-L leaves the inversion before and after to the caller and takes the length as an int. It
  // does not write through its pointer, although that is not const.
  constexpr size_t kStepBytes = size_t{1} << 30;
  uint32_t state = ~crc;
  while (!data.empty()) {
    const size_t step = std::min(data.size(), kStepBytes);
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(data.data()));
    state = crc32_iscsi(bytes, static_cast<int>(step), state);
    data.remove_prefix(step);
  }
  ClearUpperHalves();
  return ~state;
}

}  // namespace sparseagg
