#include "service/store/eraser.h"

#include <algorithm>
#include <span>
#include <vector>

#include "sparse/status.h"

namespace sparseagg {
namespace {

// What is erased in one transaction.
constexpr size_t kErasedAtOnce = 256;

}  // namespace

absl::Status Eraser::EraseContents(int64_t round) {
  std::vector<ContentPlace> places;
  {
    std::lock_guard database_lock(database_mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(places, tables_.Contents(round));
  }
  for (size_t begin = 0; begin < places.size(); begin += kErasedAtOnce) {
    const auto chunk =
        std::span(places).subspan(begin, std::min(kErasedAtOnce, places.size() - begin));
    {
      std::lock_guard database_lock(database_mutex_);
      SPARSEAGG_RETURN_IF_ERROR(tables_.Transact([&] { return tables_.DeleteContents(chunk); }));
    }
    for (const ContentPlace& place : chunk) {
      if (place.file != 0) files_.Delete(place.file);
    }
  }
  if (places.empty()) return absl::OkStatus();
  // The log has copies of what was erased.
  std::lock_guard database_lock(database_mutex_);
  return tables_.Checkpoint();
}

absl::Status Eraser::EraseUpdates(int64_t round) {
  SPARSEAGG_RETURN_IF_ERROR(EraseContents(round));
  std::lock_guard database_lock(database_mutex_);
  return tables_.Transact([&] { return tables_.DeleteUpdates(round); });
}

}  // namespace sparseagg
