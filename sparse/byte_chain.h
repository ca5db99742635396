// Functions of a ByteChain.
#ifndef SPARSEAGG_SPARSE_BYTE_CHAIN_H_
#define SPARSEAGG_SPARSE_BYTE_CHAIN_H_

#include <cstdint>
#include <string_view>

#include "sparse/encoding.h"

namespace sparseagg {

// Returns the bytes of all pieces together.
inline uint64_t TotalBytes(ByteChain chain) {
  uint64_t bytes = 0;
  for (const std::string_view piece : chain) bytes += piece.size();
  return bytes;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_BYTE_CHAIN_H_
