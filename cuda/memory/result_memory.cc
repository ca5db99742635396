#include "cuda/memory/result_memory.h"

#include <exception>

namespace sparseagg::gpu {

ResultMemory::ResultMemory(uint64_t budget_bytes, int device)
    : device_(device), memory_(budget_bytes), thread_([this] { Loop(); }) {}

ResultMemory::~ResultMemory() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void* ResultMemory::Allocate(size_t bytes) noexcept {
  if (bytes < kBytesMin) return AllocateHost(bytes);
  try {
    PinnedStaging::Block block = memory_.AllocateLocked(bytes);
    if (block != nullptr) return block.release();
    {
      const std::lock_guard lock(mutex_);
      wanted_.push_back(bytes);
    }
    changed_.notify_all();
  } catch (const std::exception&) {  // no memory to note it
  }
  return AllocateHost(bytes);
}

void ResultMemory::Free(void* memory) noexcept {
  memory_.IsPinned(memory) ? PinnedStaging::FreeBlock(memory) : FreeHost(memory);
}

void ResultMemory::AwaitLocked() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return wanted_.empty(); });
}

void ResultMemory::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !wanted_.empty(); });
    if (stopping_) return;
    const size_t bytes = wanted_.front();
    lock.unlock();
    cudaSetDevice(device_);
    memory_.Lock(bytes);
    lock.lock();
    wanted_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace sparseagg::gpu
