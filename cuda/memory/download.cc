#include "cuda/memory/download.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <system_error>

namespace sparseagg::gpu {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;
// Below this a detour costs more than it saves.
constexpr size_t kDirectBytes = size_t{64} << 10;
// On the bus at a time, so that it never waits. The others are being written: one thread writes at
// 10 GB/s, a fifth of the bus.
constexpr size_t kOnBus = 2;

// Copies on a thread of its own, or here where there is none to be had.
std::future<void> StartCopy(std::byte* to, const std::byte* from, size_t bytes) {
  try {
    return std::async(std::launch::async, [=] { std::memcpy(to, from, bytes); });
  } catch (const std::system_error&) {
    std::memcpy(to, from, bytes);
    return {};
  }
}

}  // namespace

bool Downloads::Lock(size_t pieces) {
  try {
    for (size_t p = 0; p < pieces; ++p) {
      if (pieces_[p].memory.data() == nullptr) pieces_[p].memory = PinnedBuffer(kPieceBytes);
    }
  } catch (const CudaError&) {
    return false;  // no more pages, or no device any more: the copy will tell
  }
  return true;
}

void Downloads::Start(Queue& queue, const std::byte* from, std::byte* to, size_t bytes,
                      Event& arrived) {
  queue.Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()),
              "cudaMemcpyAsync");
  arrived.Record(stream_.get());
}

void Downloads::CopyBytes(Queue& queue, const std::byte* from, std::byte* to, size_t bytes) {
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes > kDirectBytes && results_.IsPinned(to)) {
    stream_.WaitFor(marked_);
    Start(queue, from, to, bytes, pieces_[0].arrived);
    return queue.Wait(pieces_[0].arrived);
  }
  const size_t count = (bytes + kPieceBytes - 1) / kPieceBytes;
  if (bytes <= kDirectBytes || !Lock(std::min(count, kPieces))) {
    bytes == 0 ? queue.Synchronize() : queue.ReadInto(to, from, bytes);
    return;
  }
  const auto size_of = [&](size_t p) { return std::min(kPieceBytes, bytes - p * kPieceBytes); };
  stream_.WaitFor(marked_);
  std::future<void> writing[kPieces];  // wait for their threads, also when this throws
  for (size_t p = 0; p < count + kOnBus; ++p) {
    if (p < count) {
      Piece& piece = pieces_[p % kPieces];
      writing[p % kPieces] = {};
      Start(queue, from + p * kPieceBytes, piece.memory.data(), size_of(p), piece.arrived);
    }
    if (p < kOnBus || p - kOnBus >= count) continue;
    const size_t q = p - kOnBus;
    const Piece& piece = pieces_[q % kPieces];
    queue.Wait(piece.arrived);
    writing[q % kPieces] = StartCopy(to + q * kPieceBytes, piece.memory.data(), size_of(q));
  }
}

}  // namespace sparseagg::gpu
