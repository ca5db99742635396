// Assembles whole cache lines and writes them with non-temporal (streaming) stores, for output that
// the caches could not hold. An ordinary store would read the line from memory first, which for a
// large result is as much traffic again as the result.
#ifndef SPARSEAGG_CPU_WINDOWED_NON_TEMPORAL_WRITER_H_
#define SPARSEAGG_CPU_WINDOWED_NON_TEMPORAL_WRITER_H_

#include <array>
#include <cstddef>
#include <span>

#include "cpu/state/entries.h"

namespace sparseagg {

// Writes one range of memory, from its start. Thread-compatible. The bytes may be read when
// Finish() has returned.
class NonTemporalWriter {
 public:
  explicit NonTemporalWriter(std::byte* to) : to_(to) {}

  void Write(std::span<const std::byte> bytes);
  // Writes what is left of the last line.
  void Finish();

 private:
  std::byte* to_;  // where kept_ belongs: the start of a line, if it has anything
  std::array<std::byte, kLineBytes> kept_;
  size_t size_ = 0;  // of kept_, less than a line
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_NON_TEMPORAL_WRITER_H_
