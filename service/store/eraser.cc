#include "service/store/eraser.h"

#include <algorithm>
#include <span>
#include <vector>

#include "sparse/status.h"

namespace sparseagg {
namespace {

// What is erased in one transaction: payloads, and rows without any.
constexpr size_t kErasedAtOnce = 256;
constexpr int64_t kRowsAtOnce = 4096;

}  // namespace

absl::Status Eraser::Erase(const std::function<std::optional<Leftover>()>& which) {
  std::lock_guard erasing(erasing_mutex_);
  const std::optional<Leftover> leftover = which();
  return leftover.has_value() ? EraseLocked(*leftover) : absl::OkStatus();
}

absl::Status Eraser::CheckGoesOn() const {
  return stopped_ ? absl::CancelledError("the store is being closed") : absl::OkStatus();
}

absl::Status Eraser::EraseLocked(const Leftover& leftover) {
  if (leftover.phase == RoundPhase::kPublished) return EraseContents(leftover.round);
  if (leftover.phase == RoundPhase::kAborted) return EraseUpdates(leftover.round);
  return EraseRound(leftover.round);
}

void Eraser::Leave(const Leftover& leftover) {
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
  std::vector<ContentPlace> places;
  {
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(places, tables_.Contents(round));
  }
  for (size_t begin = 0; begin < places.size(); begin += kErasedAtOnce) {
    SPARSEAGG_RETURN_IF_ERROR(CheckGoesOn());
    const auto chunk =
        std::span(places).subspan(begin, std::min(kErasedAtOnce, places.size() - begin));
    {
      std::lock_guard database_lock(database_mutex_);
      log_has_copies_ = true;
      SPARSEAGG_RETURN_IF_ERROR(tables_.Transact([&] { return tables_.DeleteContents(chunk); }));
    }
    for (const ContentPlace& place : chunk) {
      if (place.file != 0) files_.Delete(place.file);
    }
  }
  return EmptyLog();
}

absl::Status Eraser::EraseUpdates(int64_t round) {
  SPARSEAGG_RETURN_IF_ERROR(EraseContents(round));
  for (bool more = true; more;) {
    SPARSEAGG_RETURN_IF_ERROR(CheckGoesOn());
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_RETURN_IF_ERROR(tables_.Transact([&]() -> absl::Status {
      SPARSEAGG_ASSIGN_OR_RETURN(more, tables_.DeleteUpdates(round, kRowsAtOnce));
      return absl::OkStatus();
    }));
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
  if (file != 0) files_.Delete(file);
  return EmptyLog();
}

absl::Status Eraser::EmptyLog() {
  for (bool more = true; more;) {
    SPARSEAGG_RETURN_IF_ERROR(CheckGoesOn());
    std::lock_guard database_lock(database_mutex_);
    if (!log_has_copies_) return absl::OkStatus();
    SPARSEAGG_ASSIGN_OR_RETURN(more, tables_.Shrink());
    if (more) continue;
    SPARSEAGG_RETURN_IF_ERROR(tables_.Checkpoint());
    log_has_copies_ = false;
  }
  return absl::OkStatus();
}

}  // namespace sparseagg
