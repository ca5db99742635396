// One case of the reduction benchmark: the updates of one round, as bench/reduce/cases.py writes
// them. The file is mapped, so that a child process pays only for the pages that it reads.
//
//   offset  bytes            what (little endian)
//   0       8                "SACASE01"
//   8       8                u64 num_rows
//   16      8                u64 row_width
//   24      8                u64 contributors K
//   32      8                u64 entries N, of all updates together
//   40      24               zero
//   64      8 * (K + 1)      u64 offsets: update k has the entries [offsets[k], offsets[k + 1])
//   ...     4 * K, padded    f32 weights; padded to a multiple of 8 bytes
//   ...     8 * N            u64 rows
//   ...     4 * N * width    f32 values
#ifndef SPARSEAGG_BENCH_REDUCE_CASE_FILE_H_
#define SPARSEAGG_BENCH_REDUCE_CASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg::bench {

struct CaseView {
  TensorLayout layout;                      // of f32
  std::span<const uint64_t> offsets;        // [contributors + 1]
  std::span<const float> weights;           // [contributors]
  const uint64_t* rows = nullptr;           // [entries]
  const float* values = nullptr;            // [entries, row_width]
  EntryOrder order = EntryOrder::kUnknown;  // of the least ordered update

  uint64_t contributors() const { return weights.size(); }
  uint64_t entries() const { return offsets.back(); }
  uint64_t entry_bytes() const { return sizeof(uint64_t) + layout.row_bytes(); }
};

class CaseFile {
 public:
  // INVALID_ARGUMENT when the file is not as described above.
  static absl::StatusOr<CaseFile> Open(const std::string& path);

  // Lives as long as this.
  const CaseView& view() const { return view_; }

 private:
  CaseFile() = default;

  std::shared_ptr<const std::byte> mapping_;
  CaseView view_;
};

// Copies from the mapping front to back and gives back the pages behind it, so that the file does
// not count as memory of the process.
class ForwardReader {
 public:
  // Copies [from, from + bytes). REQUIRES: `from` is not before the end of the last copy.
  void Copy(void* to, const void* from, size_t bytes);

 private:
  const std::byte* kept_ = nullptr;  // what was read from here on is still resident
};

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_CASE_FILE_H_
