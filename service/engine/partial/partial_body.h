// How a partial aggregate is the body of an update: as its one "tensor", whose values are the bytes
// of round_partial.h.
#ifndef SPARSEAGG_SERVICE_ENGINE_PARTIAL_PARTIAL_BODY_H_
#define SPARSEAGG_SERVICE_ENGINE_PARTIAL_PARTIAL_BODY_H_

#include <cstdint>
#include <span>
#include <string>

#include "service/engine/partial/round_partial.h"
#include "service/engine/types.h"

namespace sparseagg {

inline bool IsPartialBody(std::span<const EncodedHeader> headers) {
  return headers.size() == 1 && headers.front().encoding == kPartialEncoding;
}
inline bool IsPartialBody(std::span<const EncodedTensor> tensors) {
  return tensors.size() == 1 && tensors.front().header.encoding == kPartialEncoding;
}

// Returns the header of a partial aggregate of `bytes` bytes.
inline EncodedHeader PartialHeader(uint64_t bytes) {
  EncodedHeader header;
  header.encoding = std::string(kPartialEncoding);
  header.values_bytes = bytes;
  return header;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_PARTIAL_PARTIAL_BODY_H_
