// The wire form of one tensor's partial aggregate: slices of a fixed grid of row ranges, each of
// which can be read, hashed and merged without the others. Absent rows take no space.
//
//   tensor := slice*                  ascending; only slices that hold a row
//   slice  := u64 number              holds the rows number * 65536 + offset
//             u32 rows                1 to 65536
//             u64 bytes               of what follows
//             u16 offset [rows]       strictly ascending
//             block*                  of the value slots [rows, row_width], 64 to a block
//             block*                  of the row slots [rows], 64 to a block, if the operator has
//                                     them
//
// A block (sparse/partials/blocks.h) does not end with a row or a slice's rows with a block: the
// last one is shorter.
#ifndef SPARSEAGG_SPARSE_PARTIALS_SLICES_H_
#define SPARSEAGG_SPARSE_PARTIALS_SLICES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/partial.h"

namespace sparseagg {

inline constexpr uint64_t kSliceRows = uint64_t{1} << 16;

// Returns where the rows of each slice end, in partial.rows.
std::vector<size_t> SliceEnds(const Partial& partial);

// Returns the bytes of the slice of rows [begin, end) of partial.rows. They are a function of the
// exact value of each slot alone. Thread-safe. REQUIRES: the rows are those of one slice.
std::string WriteSlice(const Partial& partial, size_t begin, size_t end);

// Returns the slice that `bytes` begins with, as its head states its size; empty if they do not
// have so many bytes.
std::string_view FirstSlice(std::string_view bytes);

// Calls f(i) for each i below n, perhaps on several threads.
using ForEach = std::function<void(size_t n, const std::function<void(size_t i)>& f)>;

// Called with the bytes that are held, or will be, so far. Thread-safe.
using ReserveMemory = std::function<absl::Status(uint64_t bytes)>;

// What the slices of a tensor are read for.
struct SlicesToRead {
  const ReduceSpec& spec;
  uint64_t slices = 0;
  uint64_t contributors = 0;
  const WideInteger& total_weight;
};

// Takes the slices of a tensor from the front of `bytes`. Floating sums become cells. `addends` is
// the least number that bounds the slots, not the number of entries.
//
// Calls `reserve` before it takes memory, and returns its error. Slices are read independently, by
// `for_each`. Errors:
// INVALID_ARGUMENT (INVALID_PARTIAL) names tensor, slice and block for bytes that WriteSlices()
// does not write.
absl::StatusOr<Partial> ReadSlices(const SlicesToRead& what, std::string_view& bytes,
                                   const ReserveMemory& reserve, const ForEach& for_each);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_SLICES_H_
