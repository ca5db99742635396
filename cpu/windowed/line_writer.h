// Bytes on their way to an output that the caches could not hold: each line is put together here
// and written past them. An ordinary store would read the line from memory first, which for a large
// result is as much traffic again as the result.
#ifndef SPARSEAGG_CPU_WINDOWED_LINE_WRITER_H_
#define SPARSEAGG_CPU_WINDOWED_LINE_WRITER_H_

#include <array>
#include <cstddef>
#include <span>

#include "cpu/state/entries.h"

namespace sparseagg {

// Writes one stretch of memory, from its front. Not thread-safe; the bytes may be read when
// Finish() has returned.
class LineWriter {
 public:
  explicit LineWriter(std::byte* to) : to_(to) {}

  void Write(std::span<const std::byte> bytes);
  // What is left of the last line.
  void Finish();

 private:
  std::byte* to_;  // where what is kept belongs: a line's begin, if anything is
  std::array<std::byte, kLineBytes> kept_;
  size_t size_ = 0;  // of what is kept, less than a line
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_LINE_WRITER_H_
