// Loops on several threads, also when the system has no more of them: pthread_create is interposed.
#include "service/engine/partial/in_parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/support/interpose.h"

namespace {

std::atomic<int> threads_left = std::numeric_limits<int>::max();

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  static auto* const kNext =
      sparseagg::testing::Next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>(
          "pthread_create");
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return kNext(thread, attributes, start, argument);
}

namespace sparseagg {
namespace {

// Returns how often f was called for each i.
std::vector<int> Calls(size_t threads, size_t n) {
  std::vector<std::atomic<int>> calls(n);
  InParallel(threads, n, [&](size_t i) { ++calls[i]; });
  return {calls.begin(), calls.end()};
}

TEST(InParallelTest, CallsEachOnce) {
  for (const size_t n : {0, 1, 2, 1000}) {
    for (const size_t threads : {1, 2, 7}) EXPECT_EQ(Calls(threads, n), std::vector<int>(n, 1));
  }
}

TEST(InParallelTest, DoesTheWorkOfThreadsThatCannotBeStarted) {
  for (const int threads : {0, 1, 3}) {
    threads_left = threads;
    std::vector<int> calls;
    EXPECT_NO_THROW(calls = Calls(5, 1000)) << threads;
    threads_left = std::numeric_limits<int>::max();
    EXPECT_EQ(calls, std::vector<int>(1000, 1)) << threads;
  }
}

TEST(InParallelTest, ThrowsOnWhatACallThrows) {
  for (const int threads : {0, 100}) {
    threads_left = threads;
    EXPECT_THROW(InParallel(3, 100,
                            [](size_t i) {
                              if (i == 50) throw std::runtime_error("of a call");
                            }),
                 std::runtime_error);
    threads_left = std::numeric_limits<int>::max();
  }
}

}  // namespace
}  // namespace sparseagg
