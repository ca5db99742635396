// A few threads for work that is too long for a reaction of gRPC: reporting a reduction, finishing
// a large upload. gRPC runs the reactions of all calls on a small pool of its own; one that blocks
// there delays every other call.
#ifndef SPARSEAGG_SERVICE_RPC_BACKGROUND_H_
#define SPARSEAGG_SERVICE_RPC_BACKGROUND_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sparseagg {

// Of the threads for long work; others wait for a disk.
inline constexpr char kBackgroundThreadName[] = "background";

// Thread-safe. The destructor runs what is queued, then joins.
class Background {
 public:
  // The threads are called `name`, at most 15 characters.
  Background(int threads, const char* name);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Jobs start in this order. The queue is bounded by the calls that are open: each has at most so
  // many jobs here (stream_updates.cc).
  void Run(std::function<void()> job);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_BACKGROUND_H_
