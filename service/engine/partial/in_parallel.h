// Runs a loop on several threads, which are started for it: for loops of milliseconds.
#ifndef SPARSEAGG_SERVICE_ENGINE_PARTIAL_IN_PARALLEL_H_
#define SPARSEAGG_SERVICE_ENGINE_PARTIAL_IN_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <new>
#include <system_error>
#include <vector>

namespace sparseagg {

// Calls f(i) for each i below n, on at most `threads` threads; this one is one of them, and does
// the work of those that cannot be started. An exception of f is thrown on.
inline void InParallel(size_t threads, size_t n, const std::function<void(size_t i)>& f) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < n; i = next++) f(i);
  };
  std::vector<std::future<void>> helpers;
  try {
    for (size_t i = 1; i < std::min(threads, n); ++i) {
      helpers.push_back(std::async(std::launch::async, run));
    }
  } catch (const std::system_error&) {  // the process has as many threads as it may: these do
  } catch (const std::bad_alloc&) {
  }
  run();
  for (std::future<void>& helper : helpers) helper.get();
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_PARTIAL_IN_PARALLEL_H_
