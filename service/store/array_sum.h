// A checksum for the large arrays of an update: their length and a CRC-64. It is compared with that
// of a resend under the same update_id, and tells it from another update (2^-64 of them go unseen)
// at a thirtieth of the time that SHA-256 takes. It is not made against somebody who looks for two
// updates with the same sum.
#ifndef SPARSEAGG_SERVICE_STORE_ARRAY_SUM_H_
#define SPARSEAGG_SERVICE_STORE_ARRAY_SUM_H_

#include <cstdint>
#include <string_view>

#include "service/store/digest.h"

namespace sparseagg {

// Of bytes in pieces of any length, in order.
struct ArraySum {
  uint64_t bytes = 0;
  uint64_t crc64 = 0;  // CRC-64/XZ

  void Append(std::string_view piece);
};

// Length and CRC-64, as u64 each.
void HashSum(const ArraySum& sum, Sha256& digest);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_ARRAY_SUM_H_
