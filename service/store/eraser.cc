#include "service/store/eraser.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/status.h"

namespace sparseagg {
namespace {

// Limits of one transaction, which other threads wait for: the number of payloads, the bytes of
// inline payloads, which are overwritten, and the number of rows without a payload.
constexpr size_t kBatchPayloads = 256;
constexpr uint64_t kBatchInlineBytes = uint64_t{2} << 20;
constexpr int64_t kBatchRows = 4096;

constexpr int kRestFactor = 3;
constexpr std::chrono::milliseconds kRestMax{100};

// Returns the first `places` that fit in one transaction.
std::span<const ContentLocation> NextBatch(std::span<const ContentLocation> places) {
  size_t count = 0;
  for (uint64_t bytes = 0;
       count < std::min(places.size(), kBatchPayloads) && bytes < kBatchInlineBytes; ++count) {
    bytes += places[count].inline_bytes;
  }
  return places.first(count);
}

}  // namespace

void Eraser::Stop() {
  std::lock_guard lock(rest_mutex_);
  stopped_ = true;
  rest_ends_.notify_all();
}

void Eraser::Rest(std::chrono::steady_clock::time_point start) {
  if (!paced_) return;
  const auto worked = std::chrono::steady_clock::now() - start;
  std::unique_lock lock(rest_mutex_);
  rest_ends_.wait_for(lock, std::min<std::chrono::nanoseconds>(kRestFactor * worked, kRestMax),
                      [this] { return stopped_.load(); });
}

void Eraser::DeleteFile(uint64_t number) {
  const auto start = std::chrono::steady_clock::now();
  files_.Delete(number);
  Rest(start);
}

absl::Status Eraser::Erase(const std::function<std::optional<Leftover>()>& which) {
  std::lock_guard erasing(erasing_mutex_);
  const std::optional<Leftover> leftover = which();
  return leftover.has_value() ? EraseLocked(*leftover) : absl::OkStatus();
}

absl::Status Eraser::CheckNotStopped() const {
  return stopped_ ? absl::CancelledError("the store is being closed") : absl::OkStatus();
}

absl::Status Eraser::EraseLocked(const Leftover& leftover) {
  if (leftover.phase == RoundPhase::kPublished) return EraseContents(leftover.round);
  if (leftover.phase == RoundPhase::kAborted) return EraseUpdates(leftover.round);
  return EraseRound(leftover.round);
}

void Eraser::AddLeftover(const Leftover& leftover) {
  std::lock_guard lock(leftovers_mutex_);
  leftovers_.push_back(leftover);
}

absl::Status Eraser::EraseLeftovers() {
  std::lock_guard erasing(erasing_mutex_);
  while (true) {
    Leftover leftover;
    {
      std::lock_guard lock(leftovers_mutex_);
      if (leftovers_.empty()) return absl::OkStatus();
      leftover = leftovers_.back();
    }
    SPARSEAGG_RETURN_IF_ERROR(EraseLocked(leftover));
    std::lock_guard lock(leftovers_mutex_);
    std::erase(leftovers_, leftover);
  }
}

absl::Status Eraser::EraseContents(int64_t round) {
  std::vector<ContentLocation> places;
  {
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(places, tables_.Contents(round));
  }
  for (std::span<const ContentLocation> left = places; !left.empty();) {
    SPARSEAGG_RETURN_IF_ERROR(CheckNotStopped());
    const auto chunk = NextBatch(left);
    left = left.subspan(chunk.size());
    const auto start = std::chrono::steady_clock::now();
    {
      std::lock_guard database_lock(database_mutex_);
      log_has_copies_ = true;
      SPARSEAGG_RETURN_IF_ERROR(tables_.Transact([&] { return tables_.DeleteContents(chunk); }));
    }
    Rest(start);
    for (const ContentLocation& place : chunk) {
      if (place.file != 0) DeleteFile(place.file);
    }
  }
  return EmptyLog();
}

absl::Status Eraser::EraseUpdates(int64_t round) {
  SPARSEAGG_RETURN_IF_ERROR(EraseContents(round));
  for (bool more = true; more;) {
    SPARSEAGG_RETURN_IF_ERROR(CheckNotStopped());
    const auto start = std::chrono::steady_clock::now();
    {
      std::lock_guard database_lock(database_mutex_);
      SPARSEAGG_RETURN_IF_ERROR(tables_.Transact([&]() -> absl::Status {
        SPARSEAGG_ASSIGN_OR_RETURN(more, tables_.DeleteUpdates(round, kBatchRows));
        return absl::OkStatus();
      }));
    }
    Rest(start);
  }
  return absl::OkStatus();
}

absl::Status Eraser::EraseRound(int64_t round) {
  SPARSEAGG_RETURN_IF_ERROR(EraseUpdates(round));
  uint64_t file = 0;
  {
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(file, tables_.ResultFile(round));
    log_has_copies_ = true;
    SPARSEAGG_RETURN_IF_ERROR(tables_.Transact([&] { return tables_.DeleteRound(round); }));
  }
  if (file != 0) DeleteFile(file);
  return EmptyLog();
}

absl::Status Eraser::EmptyLog() {
  for (bool more = true; more;) {
    SPARSEAGG_RETURN_IF_ERROR(CheckNotStopped());
    const auto start = std::chrono::steady_clock::now();
    {
      std::lock_guard database_lock(database_mutex_);
      if (!log_has_copies_) return absl::OkStatus();
      SPARSEAGG_ASSIGN_OR_RETURN(more, tables_.Shrink());
      if (!more) {
        SPARSEAGG_RETURN_IF_ERROR(tables_.Checkpoint());
        log_has_copies_ = false;
      }
    }
    Rest(start);
  }
  return absl::OkStatus();
}

}  // namespace sparseagg
