// Large blocks are used again, and what is kept is bounded.
#include "python/native/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/host_vector.h"

namespace sparseagg {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool IsAligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 64 == 0; }

TEST(HostMemoryTest, UsesAFreedBlockOfAboutTheSizeAgain) {
  void* const first = AllocateHost(40 * kMiB + 1);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(IsAligned(first));
  std::memset(first, 1, 40 * kMiB + 1);
  const size_t before = native::KeptBytes();
  FreeHost(first);
  EXPECT_EQ(native::KeptBytes(), before + 42 * kMiB);
  void* const small = AllocateHost(20 * kMiB);  // less than half of it
  EXPECT_NE(small, first);
  void* const again = AllocateHost(30 * kMiB);
  EXPECT_EQ(again, first);
  void* const other = AllocateHost(30 * kMiB);
  EXPECT_NE(other, first);
  for (void* memory : {small, again, other}) FreeHost(memory);
}

TEST(HostMemoryTest, KeepsABoundedNumberOfBytes) {
  std::vector<void*> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(AllocateHost(100 * kMiB));  // never written
  for (void* block : blocks) FreeHost(block);
  EXPECT_LE(native::KeptBytes(), native::kKeptBytesMax);
  EXPECT_GE(native::KeptBytes(), native::kKeptBytesMax - 100 * kMiB);
  const size_t before = native::KeptBytes();
  FreeHost(AllocateHost(native::kKeptBytesMax + kMiB));
  EXPECT_EQ(native::KeptBytes(), before) << "a block above the bound goes back to the system";
}

TEST(HostMemoryTest, TakesSmallBlocksFromTheAllocator) {
  const size_t before = native::KeptBytes();
  std::vector<void*> blocks;
  for (const size_t bytes : {size_t{1}, size_t{63}, 2 * kMiB, kHugeBytesMin - 1}) {
    blocks.push_back(AllocateHost(bytes));
    ASSERT_NE(blocks.back(), nullptr);
    EXPECT_TRUE(IsAligned(blocks.back()));
    std::memset(blocks.back(), 1, bytes);
  }
  for (void* block : blocks) FreeHost(block);
  FreeHost(nullptr);
  EXPECT_EQ(native::KeptBytes(), before);
}

TEST(HostMemoryTest, RefusesWhatNoMachineHas) {
  EXPECT_EQ(AllocateHost(SIZE_MAX), nullptr);
  EXPECT_EQ(AllocateHost(SIZE_MAX / 4), nullptr);
}

TEST(HostMemoryTest, ThreadsHaveBlocksOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        auto* const memory = static_cast<char*>(AllocateHost(5 * kMiB));
        ASSERT_NE(memory, nullptr);
        memory[0] = memory[5 * kMiB - 1] = static_cast<char>(t);
        std::this_thread::yield();
        EXPECT_EQ(memory[0], static_cast<char>(t));
        EXPECT_EQ(memory[5 * kMiB - 1], static_cast<char>(t));
        FreeHost(memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HostMemoryTest, AForkedChildAllocates) {
  FreeHost(AllocateHost(8 * kMiB));
  const pid_t child = fork();
  if (child == 0) {
    auto* const memory = static_cast<char*>(AllocateHost(8 * kMiB));
    memory[0] = 1;
    FreeHost(memory);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sparseagg
