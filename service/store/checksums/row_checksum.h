// The CRC-32C of the columns of a row, one after the other. A byte string is preceded by its
// length, so that no two different rows have the same bytes.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_ROW_CHECKSUM_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_ROW_CHECKSUM_H_

#include <cstdint>
#include <string_view>

#include "service/store/checksums/crc32c.h"

namespace sparseagg {

class RowChecksum {
 public:
  RowChecksum& Integer(uint64_t value) {
    crc32c_ = Crc32c({reinterpret_cast<const char*>(&value), sizeof(value)}, crc32c_);
    return *this;
  }
  RowChecksum& Bytes(std::string_view bytes) {
    Integer(bytes.size());
    crc32c_ = Crc32c(bytes, crc32c_);
    return *this;
  }
  int64_t value() const { return crc32c_; }

 private:
  uint32_t crc32c_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_ROW_CHECKSUM_H_
