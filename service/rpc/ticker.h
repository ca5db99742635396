// Calls a function at regular intervals, on a thread of its own.
#ifndef SPARSEAGG_SERVICE_RPC_TICKER_H_
#define SPARSEAGG_SERVICE_RPC_TICKER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace sparseagg {

class Ticker {
 public:
  // Waits `interval` before each call.
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick)
      : thread_([this, interval, tick = std::move(tick)] {
          std::unique_lock lock(mutex_);
          while (!stop_.wait_for(lock, interval, [this] { return stopping_; })) {
            lock.unlock();
            tick();
            lock.lock();
          }
        }) {}
  // Waits for a call in progress.
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_TICKER_H_
