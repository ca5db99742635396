// A checksum of 128 bits for the large arrays of an update: two CRC-64 of different polynomials.
// It tells two updates apart that differ by accident, at a thirtieth of the time that SHA-256
// takes. It is not made against somebody who looks for two updates with the same sum.
#ifndef SPARSEAGG_SERVICE_STORE_ARRAY_SUM_H_
#define SPARSEAGG_SERVICE_STORE_ARRAY_SUM_H_

#include <cstdint>
#include <string_view>

#include "service/store/digest.h"

namespace sparseagg {

// Of bytes in pieces of any length, in order.
struct ArraySum {
  uint64_t bytes = 0;
  uint64_t ecma = 0;   // CRC-64/XZ
  uint64_t jones = 0;  // CRC-64 of Jones' polynomial, reflected, inverted before and after

  void Append(std::string_view piece);
};

// Length, ecma, jones, as u64 each.
void HashSum(const ArraySum& sum, Sha256& digest);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_ARRAY_SUM_H_
