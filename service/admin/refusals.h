// The last refused updates, for the status page, without error messages, which may quote an index
// or a value.
#ifndef SPARSEAGG_SERVICE_ADMIN_REFUSALS_H_
#define SPARSEAGG_SERVICE_ADMIN_REFUSALS_H_

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "service/engine/engine.h"

namespace sparseagg {

struct Refusal {
  std::chrono::system_clock::time_point time;
  std::string round;
  std::string contributor;
  std::string reason;
  bool retry = false;  // the error had a retry hint
};

// Thread-safe.
class Refusals : public EngineObserver {
 public:
  using Clock = std::function<std::chrono::system_clock::time_point()>;
  explicit Refusals(Clock now) : now_(std::move(now)) {}

  void OnSubmission(const SubmissionReport& report) override;

  // The newest first.
  std::vector<Refusal> Recent() const;

  static constexpr size_t kKept = 50;

 private:
  const Clock now_;
  mutable std::mutex mutex_;
  std::deque<Refusal> refusals_;  // the newest first
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_REFUSALS_H_
