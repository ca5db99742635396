// Reads and writes the file N.part beside a partial payload N; partial_files.h has its grammar. It
// is read after crashes: reading stops at the first torn or damaged record.
#ifndef SPARSEAGG_SERVICE_STORE_PARTIAL_RECORDS_H_
#define SPARSEAGG_SERVICE_STORE_PARTIAL_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/store/store.h"

namespace sparseagg {

inline constexpr char kPartialSuffix[] = ".part";
// At most this many bytes of N.part are read: enough for an identity of some thousand tensors and
// for a checkpoint for every 8 MiB of the largest payload.
inline constexpr size_t kPartialRecordBytesMax = size_t{16} << 20;

struct Checkpoint {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;  // of the first `bytes` bytes of the payload
  uint64_t end = 0;     // offset behind the record; set by ReadPartialRecord()
};

struct PartialRecord {
  std::optional<PartialIdentity> identity;
  uint64_t identity_end = 0;            // offset behind its record
  std::vector<Checkpoint> checkpoints;  // bytes ascending
};

std::string IdentityRecord(const PartialIdentity& identity);
std::string CheckpointRecord(const Checkpoint& checkpoint);
PartialRecord ReadPartialRecord(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_PARTIAL_RECORDS_H_
