#include "cuda/download.h"

#include <algorithm>
#include <cstring>

namespace sparseagg::gpu {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;
// Below this a detour costs more than it saves.
constexpr size_t kDirectBytes = size_t{64} << 10;

}  // namespace

void Downloads::CopyBytes(Queue& queue, const std::byte* from, std::byte* to, size_t bytes) {
  if (bytes <= kDirectBytes) {
    queue.Download(to, from, bytes);
    queue.Synchronize();
    return;
  }
  Event done[2];
  for (PinnedBuffer& piece : pieces_) {
    if (piece.data() == nullptr) piece = PinnedBuffer(kPieceBytes);
  }
  const size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  const auto size_of = [&](size_t p) { return std::min(kPieceBytes, bytes - p * kPieceBytes); };
  for (size_t p = 0; p <= pieces; ++p) {
    if (p < pieces) {
      queue.Download(pieces_[p % 2].data(), from + p * kPieceBytes, size_of(p));
      done[p % 2].Record(queue.cuda_stream());
    }
    if (p > 0) {
      queue.Wait(done[(p - 1) % 2]);
      std::memcpy(to + (p - 1) * kPieceBytes, pieces_[(p - 1) % 2].data(), size_of(p - 1));
    }
  }
}

}  // namespace sparseagg::gpu
