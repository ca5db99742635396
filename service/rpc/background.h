// A thread pool for work that is too long for a gRPC reaction: reporting a reduction, finishing a
// large upload. gRPC runs the reactions of all calls on a small pool of its own, and one that
// blocks there delays every other call.
#ifndef SPARSEAGG_SERVICE_RPC_BACKGROUND_H_
#define SPARSEAGG_SERVICE_RPC_BACKGROUND_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sparseagg {

// Name of the threads for long work. A second pool, for calls that wait for the disk, has another.
inline constexpr char kBackgroundThreadName[] = "background";

// Thread-safe. The destructor runs what is queued, then joins.
class Background {
 public:
  // `name` is the name of the threads; REQUIRES: at most 15 characters (Linux's limit).
  Background(int threads, const char* name);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Jobs start in the order of these calls. The number of open calls bounds the queue, because each
  // call has a bounded number of jobs here (stream_updates.cc).
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
