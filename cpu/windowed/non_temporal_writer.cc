#include "cpu/windowed/non_temporal_writer.h"

#include <algorithm>
#include <cstdint>

#include "sparse/streaming.h"

namespace sparseagg {

void NonTemporalWriter::Write(std::span<const std::byte> bytes) {
  // A line that begins before the output is not written as a whole.
  const size_t begun = reinterpret_cast<uintptr_t>(to_) % kLineBytes;
  if (begun > 0) {
    const size_t rest = std::min(kLineBytes - begun, bytes.size());
    std::copy_n(bytes.begin(), rest, to_);
    to_ += rest;
    bytes = bytes.subspan(rest);
  }
  if (size_ > 0) {
    const size_t more = std::min(kLineBytes - size_, bytes.size());
    std::copy_n(bytes.begin(), more, kept_.begin() + size_);
    bytes = bytes.subspan(more);
    size_ += more;
    if (size_ < kLineBytes) return;
    StoreLinesNonTemporal(kept_.data(), 1, to_);
    to_ += kLineBytes;
    size_ = 0;
  }
  const size_t lines = bytes.size() / kLineBytes;
  StoreLinesNonTemporal(bytes.data(), lines, to_);
  to_ += lines * kLineBytes;
  bytes = bytes.subspan(lines * kLineBytes);
  std::copy(bytes.begin(), bytes.end(), kept_.begin());
  size_ = bytes.size();
}

void NonTemporalWriter::Finish() {
  std::copy_n(kept_.begin(), size_, to_);
  to_ += size_;
  size_ = 0;
  FinishNonTemporalStores();
}

}  // namespace sparseagg
