#include "cpu/line_writer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sparse/streaming.h"

namespace sparseagg {

void LineWriter::Write(std::span<const std::byte> bytes) {
  const size_t of_line = kLineBytes - reinterpret_cast<uintptr_t>(to_) % kLineBytes;
  if (size_ > 0 || of_line < kLineBytes) {
    const size_t more = std::min(of_line - size_, bytes.size());
    std::memcpy(kept_.data() + size_, bytes.data(), more);
    bytes = bytes.subspan(more);
    size_ += more;
    if (size_ < of_line) return;
    if (of_line == kLineBytes) {
      StreamLines(kept_.data(), 1, to_);
    } else {
      std::memcpy(to_, kept_.data(), of_line);
    }
    to_ += of_line;
    size_ = 0;
  }
  const size_t lines = bytes.size() / kLineBytes;
  StreamLines(bytes.data(), lines, to_);
  to_ += lines * kLineBytes;
  bytes = bytes.subspan(lines * kLineBytes);
  std::copy(bytes.begin(), bytes.end(), kept_.begin());
  size_ = bytes.size();
}

void LineWriter::Finish() {
  std::copy_n(kept_.begin(), size_, to_);
  to_ += size_;
  size_ = 0;
  EndStream();
}

}  // namespace sparseagg
