#include "service/engine/round/fold_queue.h"

#include <chrono>
#include <utility>

namespace sparseagg {
namespace {

// Waking a thread for each small update took a fifth of a server's time.
constexpr uint64_t kFoldBytesMin = uint64_t{256} << 10;
constexpr std::chrono::milliseconds kFoldDelayMax{5};

}  // namespace

FoldQueue::FoldQueue(Executor& executor, Strand& strand, Fold fold, Owner owner)
    : executor_(executor), strand_(strand), fold_(std::move(fold)), owner_(std::move(owner)) {}

void FoldQueue::Push(UpdateToFold update) {
  Turn turn = Turn::kNone;
  {
    std::lock_guard lock(mutex_);
    for (const StagedUpdate& tensor : update.staged) bytes_ += tensor.bytes;
    if (update.partial != nullptr) bytes_ += MemoryBytes(*update.partial);
    updates_.push_back(std::move(update));
    if (!folding_) turn = NextTurnLocked();
  }
  Post(turn);
}

FoldQueue::Turn FoldQueue::NextTurnLocked() {
  folding_ = bytes_ >= kFoldBytesMin;
  if (folding_) return Turn::kNow;
  if (updates_.empty() || std::exchange(due_, true)) return Turn::kNone;
  return Turn::kSoon;
}

void FoldQueue::Post(Turn turn) {
  if (turn == Turn::kNow) {
    strand_.Post([this, owner = owner_()] { RunTurn(); });
  } else if (turn == Turn::kSoon) {
    executor_.PostAfter(kFoldDelayMax, [this, owner = owner_()] { FoldNow(); });
  }
}

void FoldQueue::FoldNow() {
  {
    std::lock_guard lock(mutex_);
    due_ = false;
    if (folding_ || updates_.empty()) return;
    folding_ = true;
  }
  Post(Turn::kNow);
}

void FoldQueue::RunTurn() {
  fold_(Drain());
  Turn next = Turn::kNone;
  {
    std::lock_guard lock(mutex_);
    next = NextTurnLocked();
  }
  Post(next);
}

std::vector<UpdateToFold> FoldQueue::Drain() {
  std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(updates_, {});
}

}  // namespace sparseagg
