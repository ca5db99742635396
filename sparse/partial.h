// A partial aggregate: the exact state of a reduction, in a form that every back end reads and
// writes. Partials merge exactly and in any order, so batches, shards, a tree of servers and
// recovery all give the same bits.
//
// Every row has SlotsPerRow(spec) slots of 128 bits. What a slot holds depends on the operator
// (sparse/ops/):
//   exact sums   multiples of 2^lsb (sparse/window.h; lsb is 0 for integers); the exact value of a
//   slot is
//                slot * 2^lsb + the sum of its entries in the side table
//   min, max     the order key of the extreme value
#ifndef SPARSEAGG_SPARSE_PARTIAL_H_
#define SPARSEAGG_SPARSE_PARTIAL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
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
  std::vector<uint64_t> rows;   // strictly ascending
  std::vector<Int128> slots;    // [rows, SlotsPerRow(spec)]
  std::vector<SideEntry> side;  // sorted by (row, column)
};

// Bytes that the arrays of a partial aggregate hold.
uint64_t MemoryBytes(const Partial& partial);

// Slots of one row: the values of the row, and one more where the operator needs to know who holds
// the row.
uint32_t SlotsPerRow(const ReduceSpec& spec);

// The slot of a row that no contributor holds yet.
Int128 EmptySlotOf(const ReduceSpec& spec);

// Joins the slots of a row into those of the same row elsewhere, both [SlotsPerRow(spec)].
void CombineRow(const ReduceSpec& spec, const Int128* from, Int128* into);

// Sorts a side table by (row, column).
void SortSide(std::vector<SideEntry>& side);

// Appends `value` as side entries of slot (row, column).
void AppendDigits(const WideInteger& value, uint64_t row, uint32_t column,
                  std::vector<SideEntry>& side);

// Sums runs of more than a few side entries of one slot and writes them as few digits. Keeps the
// value of every slot. REQUIRES: sorted. Bounds the side table by a constant number of entries a
// slot.
void CompactSide(std::vector<SideEntry>& side);

// Moves the slots of `partial` to multiples of 2^lsb; what does not fit goes to its side table.
void Rebase(Partial& partial, int32_t lsb);

// FAILED_PRECONDITION (SPEC_MISMATCH) unless both are the same reduction (the name does not
// matter); RESOURCE_EXHAUSTED (TOO_MANY_ENTRIES) when together they exceed kAddendsMax.
absl::Status CheckMergeable(const Partial& a, const Partial& b);

// OUT_OF_RANGE (INTEGER_OVERFLOW): the exact result of a checked integer does not fit its type.
absl::Status IntegerOverflowError(const ReduceSpec& spec, uint64_t row, uint32_t column);

// RESOURCE_EXHAUSTED (TOO_MANY_ENTRIES) when `more` entries after `addends` exceed kAddendsMax.
absl::Status CheckAddends(const ReduceSpec& spec, uint64_t addends, uint64_t more);

// a + b. REQUIRES: CheckMergeable. Cost: linear in both.
Partial MergePartials(Partial a, Partial b);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIAL_H_
