// Bounds the time that a stop takes, whatever is under way then.
#ifndef SPARSEAGG_SERVICE_STOP_DEADLINE_H_
#define SPARSEAGG_SERVICE_STOP_DEADLINE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sparseagg {

// Ends the process with `exit_code` at `end`, after `last_words`, unless this is destroyed before.
// A call or a destructor may wait for a disk or a device for ever, and neither can be interrupted.
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
