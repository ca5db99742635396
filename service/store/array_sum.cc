#include "service/store/array_sum.h"

#include <isa-l/crc64.h>

#include "service/store/vector_state.h"

namespace sparseagg {

void ArraySum::Append(std::string_view piece) {
  if (piece.empty()) return;
  const auto* data = reinterpret_cast<const unsigned char*>(piece.data());
  bytes += piece.size();
  ecma = crc64_ecma_refl(ecma, data, piece.size());
  jones = crc64_jones_refl(jones, data, piece.size());
  ClearUpperHalves();
}

void HashSum(const ArraySum& sum, Sha256& digest) {
  digest.U64(sum.bytes).U64(sum.ecma).U64(sum.jones);
}

}  // namespace sparseagg
