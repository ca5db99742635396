// CRC-32C (Castagnoli, RFC 3720), the checksum of chunks and of stored rows: it detects damage,
// while the SHA-256 of digest.h decides identity. ISA-L computes it and chooses the processor's
// instructions at run time.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_CRC32C_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace sparseagg {

// Returns the checksum of `data`, continued from `crc`, the checksum of the bytes before it.
// Thread-safe.
uint32_t Crc32c(std::string_view data, uint32_t crc = 0);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_CRC32C_H_
