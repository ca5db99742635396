#include "service/store/array_sum.h"

#include <isa-l/crc64.h>

#include "service/store/vector_state.h"

namespace sparseagg {

void ArraySum::Append(std::string_view piece) {
  if (piece.empty()) return;
  bytes += piece.size();
  crc64 =
      crc64_ecma_refl(crc64, reinterpret_cast<const unsigned char*>(piece.data()), piece.size());
  ClearUpperHalves();
}

void HashSum(const ArraySum& sum, Sha256& digest) { digest.U64(sum.bytes).U64(sum.crc64); }

}  // namespace sparseagg
