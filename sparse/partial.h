// A partial aggregate: the exact state of a reduction, in a form that every back end reads and
// writes. Partials merge exactly and in any order, so batches, shards, a tree of servers and
// recovery all give the same bits.
//
// Every row has SlotsPerRow(spec) slots of 128 bits. What a slot holds depends on the operator
// (sparse/ops/):
//
//   exact sums   a multiple of 2^lsb (sparse/window.h; lsb is 0 for integers); the exact value is
//                slot * 2^lsb + the sum of the slot's entries in the side table
//   min, max     the order key of the extreme value
//
// Floating sums may be doubles ("cells") in place of slots: half the memory, and what a CPU adds.
#ifndef SPARSEAGG_SPARSE_PARTIAL_H_
#define SPARSEAGG_SPARSE_PARTIAL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/host_vector.h"
#include "sparse/float_format.h"
#include "sparse/side_entry.h"
#include "sparse/types.h"
#include "sparse/wide_integer.h"

namespace sparseagg {

struct Partial {
  ReduceSpec spec;
  uint64_t contributors = 0;  // updates folded in, empty ones too
  WideInteger total_weight;   // exact sum of their weights
  uint64_t addends = 0;       // bounds every slot: |slot| < addends * 2^kWindowValueBits
  int32_t lsb = 0;
  HostVector<uint64_t> rows;    // strictly ascending
  std::vector<Int128> slots;    // [rows, SlotsPerRow(spec)]
  std::vector<SideEntry> side;  // sorted by (row, column)
  // Doubles in place of `slots`, unless empty: the exact value is a cell + its side entries, and
  // |cell| < addends * kCellLimit.
  HostVector<std::byte> cells;      // [rows, row_width]
  HostVector<std::byte> row_cells;  // [rows], empty when the operator has no row slots
};

// kAddendsMax times this is still far from the end of a double's range.
inline constexpr double kCellLimit = 0x1p970;

inline bool HasCells(const Partial& partial) { return !partial.cells.empty(); }
// Returns the doubles in an array of cells.
inline std::span<const double> AsDoubles(const HostVector<std::byte>& cells) {
  return {reinterpret_cast<const double*>(cells.data()), cells.size() / sizeof(double)};
}
// Returns the same partial aggregate with slots.
Partial WithSlots(Partial partial);

// Bytes of memory that the arrays of a partial aggregate hold. What is reserved in `rows` and cells
// beyond their size takes none (base/host_vector.h).
uint64_t MemoryBytes(const Partial& partial);

// Number of slots of one row: its value slots, plus one where the operator has a row slot
// (sparse/ops/op.h).
uint32_t SlotsPerRow(const ReduceSpec& spec);

// Sorts a side table by (row, column).
void SortSide(std::vector<SideEntry>& side);

// Appends `value` as side entries of slot (row, column).
void AppendDigits(const WideInteger& value, uint64_t row, uint32_t column,
                  std::vector<SideEntry>& side);

// Sums the side entries of every slot that has many and writes the sum as digits, where these are
// fewer. Keeps the value of every slot, and bounds the side table by a constant number of entries
// per slot. REQUIRES: `side` is sorted.
void CompactSide(std::vector<SideEntry>& side);

// Converts the slots of `partial` to multiples of 2^lsb. Values that do not fit move to its side
// table. REQUIRES: it has slots.
void Rebase(Partial& partial, int32_t lsb);

// Returns FAILED_PRECONDITION (SPEC_MISMATCH) unless both are of the same reduction, apart from its
// name, and RESOURCE_EXHAUSTED (TOO_MANY_ENTRIES) when together they exceed kAddendsMax.
absl::Status CheckMergeable(const Partial& a, const Partial& b);

// Makes the error of a checked integer whose exact result does not fit its type: OUT_OF_RANGE
// (INTEGER_OVERFLOW).
absl::Status IntegerOverflowError(const ReduceSpec& spec, uint64_t row, uint32_t column);

// Returns RESOURCE_EXHAUSTED (TOO_MANY_ENTRIES) when addends + more exceeds kAddendsMax.
absl::Status CheckAddends(const ReduceSpec& spec, uint64_t addends, uint64_t more);

// Returns a + b, in time linear in both. REQUIRES: CheckMergeable(a, b) is OK.
Partial MergePartials(Partial a, Partial b);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIAL_H_
