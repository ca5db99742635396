// CRC-32C (Castagnoli, RFC 3720), the checksum of a chunk on its way: it finds damage, the SHA-256
// of digest.h decides identity. Computed by ISA-L, which picks the processor's instructions at run
// time.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_CRC32C_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace sparseagg {

// The checksum of `data`; `crc` continues that of the bytes before it. Thread-safe.
uint32_t Crc32c(std::string_view data, uint32_t crc = 0);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_CRC32C_H_
