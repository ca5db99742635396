#include "service/stop_deadline.h"

#include <unistd.h>

#include <utility>

namespace sparseagg {

StopDeadline::StopDeadline(std::chrono::steady_clock::time_point end, int exit_code,
                           std::function<void()> last_words)
    : thread_(
          [this, end, exit_code, last_words = std::move(last_words)](const std::stop_token& stop) {
            std::unique_lock lock(mutex_);
            stopped_.wait_until(lock, stop, end, [] { return false; });
            if (stop.stop_requested()) return;
            last_words();
            _exit(exit_code);
          }) {}

}  // namespace sparseagg
