#include "service/rpc/drain_list.h"

#include <algorithm>
#include <utility>

namespace sparseagg {

void DrainList::Add(const std::shared_ptr<DrainableCall>& call) {
  {
    const std::lock_guard lock(mutex_);
    if (!draining_) {
      if (calls_.size() >= sweep_at_) {
        std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
        sweep_at_ = std::max<size_t>(64, 2 * calls_.size());
      }
      calls_.push_back(call);
      return;
    }
  }
  call->Drain();
}

void DrainList::DrainAll() {
  std::vector<std::weak_ptr<DrainableCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    calls = std::exchange(calls_, {});
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->Drain();
  }
}

void DrainList::CheckTimes(std::chrono::steady_clock::time_point now) {
  std::vector<std::weak_ptr<DrainableCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls = calls_;
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->CheckTime(now);
  }
}

}  // namespace sparseagg
