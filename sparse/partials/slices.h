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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/partial.h"

namespace sparseagg {

inline constexpr uint64_t kSliceRows = uint64_t{1} << 16;

using OnSlice = std::function<void(std::string_view slice)>;

// Calls `on_slice` with the bytes of each slice in ascending order. They are a function of the
// exact value of each slot alone.
void WriteSlices(const Partial& partial, const OnSlice& on_slice);

// What the slices of a tensor are read for.
struct SlicesToRead {
  const ReduceSpec& spec;
  uint64_t slices = 0;
  uint64_t contributors = 0;
  const WideInteger& total_weight;
};

// Takes the slices of a tensor from the front of `bytes`. The window of the result is chosen from
// the numbers, and its `addends` is the least number that bounds its slots, not the number of
// entries.
//
// Calls `reserve` with the memory that the result takes so far, in steps of at most a few MiB
// beyond what is held, and returns its error. Calls `on_slice` after each slice. Errors:
// INVALID_ARGUMENT (INVALID_PARTIAL) names tensor, slice and block for bytes that WriteSlices()
// does not write.
absl::StatusOr<Partial> ReadSlices(const SlicesToRead& what, std::string_view& bytes,
                                   const std::function<absl::Status(uint64_t bytes)>& reserve,
                                   const OnSlice& on_slice);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_SLICES_H_
