// An entry of a side table, which holds what does not fit the window of an exact accumulator. Host
// and device.
#ifndef SPARSEAGG_SPARSE_SIDE_ENTRY_H_
#define SPARSEAGG_SPARSE_SIDE_ENTRY_H_

#include <cstdint>

#include "base/host_device.h"

namespace sparseagg {

// A number that does not fit the window: significand * 2^exponent, a part of slot (row, column).
// The side table is a list of such digits, sorted by (row, column); a slot may have several. A
// product outside the window thus costs the 24 bytes of one entry, not a wide integer: the memory
// that a hostile sender uses is proportional to what it sent.
struct SideEntry {
  uint64_t row;
  uint32_t column;
  int32_t exponent;
  int64_t significand;

  friend SPARSEAGG_HOST_DEVICE bool operator==(const SideEntry& a, const SideEntry& b) {
    return a.row == b.row && a.column == b.column && a.exponent == b.exponent &&
           a.significand == b.significand;
  }
};

// The order of a side table.
inline SPARSEAGG_HOST_DEVICE bool SlotLess(const SideEntry& a, const SideEntry& b) {
  return a.row != b.row ? a.row < b.row : a.column < b.column;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_SIDE_ENTRY_H_
