// Bounds the time of a stop, whatever the process is waiting for.
#ifndef SPARSEAGG_SERVICE_STOP_DEADLINE_H_
#define SPARSEAGG_SERVICE_STOP_DEADLINE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sparseagg {

// Calls `last_words` at `end` and ends the process with `exit_code`, unless this is destroyed
// before. A call or a destructor may wait for a disk or a device for ever, and that wait cannot be
// interrupted.
class StopDeadline {
 public:
  StopDeadline(std::chrono::steady_clock::time_point end, int exit_code,
               std::function<void()> last_words);

 private:
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STOP_DEADLINE_H_
