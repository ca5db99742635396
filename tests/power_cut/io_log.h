// The log of all operations of a program on the files of one folder, in a possible order.
// io_recorder.cc writes it, crash_states.cc reads it.
#ifndef SPARSEAGG_TESTS_POWER_CUT_IO_LOG_H_
#define SPARSEAGG_TESTS_POWER_CUT_IO_LOG_H_

#include <cstdint>

namespace sparseagg::testing {

enum class IoOp : uint32_t {
  kCreate = 1,    // a new file
  kWrite = 2,     // `offset`; the data follow
  kTruncate = 3,  // to `offset` bytes
  kSync = 4,      // syncs the file's content
  kUnlink = 5,
  kSyncFolder = 6,  // of the names in the folder `name`; "" is the recorded folder itself
  kAck = 7,         // the data is the acknowledgement
};

// Followed by `name_bytes` of the path within the folder, then `data_bytes`.
struct IoRecord {
  IoOp op;
  uint32_t name_bytes;
  uint64_t offset;
  uint64_t data_bytes;
};

// Writes to a file of this name are acknowledgements, and not part of the disk.
inline constexpr char kAckFile[] = "ACK";

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_POWER_CUT_IO_LOG_H_
