// Counts the calls in progress, from the start of their handler until gRPC has sent their last
// byte. A stopping server waits for them and for nothing else. gRPC's own Shutdown() also waits for
// idle connections to close, which a client that is not polling does after seconds, or never.
#ifndef SPARSEAGG_SERVICE_RPC_CALL_COUNTER_H_
#define SPARSEAGG_SERVICE_RPC_CALL_COUNTER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace sparseagg {

// Thread-safe.
class CallCounter {
 public:
  // A member of each call's reactor. `counter` must outlive it.
  class Entry {
   public:
    explicit Entry(CallCounter& counter) : counter_(counter) { counter_.Add(1); }
    ~Entry() { counter_.Add(-1); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    CallCounter& counter_;
  };

  uint64_t count() {
    const std::lock_guard lock(mutex_);
    return static_cast<uint64_t>(calls_);
  }

  // Returns when no call is in progress, at the latest at `deadline`.
  void WaitUntilIdle(std::chrono::system_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    became_idle_.wait_until(lock, deadline, [this] { return calls_ == 0; });
  }

 private:
  void Add(int64_t calls) {
    const std::lock_guard lock(mutex_);
    calls_ += calls;
    if (calls_ == 0) became_idle_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable became_idle_;
  int64_t calls_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_CALL_COUNTER_H_
