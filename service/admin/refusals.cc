#include "service/admin/refusals.h"

#include "base/status.h"

namespace sparseagg {
namespace {

// Callers choose the names, which are unchecked if they caused the refusal.
constexpr size_t kNameBytesMax = 80;

// Cuts between two characters.
std::string Clipped(const std::string& name) {
  if (name.size() <= kNameBytesMax) return name;
  size_t end = kNameBytesMax;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end);
}

}  // namespace

void Refusals::OnSubmission(const SubmissionReport& report) {
  if (report.status.ok()) return;
  Refusal refusal{.time = now_(),
                  .round = Clipped(report.header.round),
                  .contributor = Clipped(report.header.contributor),
                  .reason = ErrorReason(report.status),
                  .retry = RetryAfterMs(report.status) > 0};
  const std::lock_guard lock(mutex_);
  refusals_.push_front(std::move(refusal));
  if (refusals_.size() > kKept) refusals_.pop_back();
}

std::vector<Refusal> Refusals::Recent() const {
  const std::lock_guard lock(mutex_);
  return {refusals_.begin(), refusals_.end()};
}

}  // namespace sparseagg
