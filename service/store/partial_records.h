// What stands in the file N.part beside a partial payload N (partial_files.h has the grammar). It
// is read after crashes: whatever is torn or damaged ends what counts of it.
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
// Longer ones are not read to their end: an identity of some thousand tensors, and a checkpoint for
// every 8 MiB of the largest payload.
inline constexpr size_t kPartialRecordBytesMax = size_t{16} << 20;

struct Checkpoint {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;  // of so many bytes of the payload
  uint64_t end = 0;     // of the record, when it was read
};

struct PartialRecord {
  std::optional<PartialIdentity> identity;
  uint64_t identity_end = 0;            // of its record
  std::vector<Checkpoint> checkpoints;  // bytes ascending
};

std::string IdentityRecord(const PartialIdentity& identity);
std::string CheckpointRecord(const Checkpoint& checkpoint);
PartialRecord ReadPartialRecord(std::string_view text);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_PARTIAL_RECORDS_H_
