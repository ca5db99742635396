#include "service/audit/audit_trail.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sparseagg {

std::shared_ptr<void> AuditTrail::ActingFor(const std::string& principal) {
  const std::thread::id thread = std::this_thread::get_id();
  {
    const std::lock_guard lock(mutex_);
    acting_[thread] = principal;
  }
  return std::shared_ptr<void>(this, [this, thread](void*) {
    const std::lock_guard lock(mutex_);
    acting_.erase(thread);
  });
}

void AuditTrail::RoundChanged(std::string_view event, const std::string& tenant,
                              const std::string& round, AuditLog::Fields more) {
  AuditLog::Fields fields = {{"tenant", tenant}, {"round", round}};
  {
    const std::lock_guard lock(mutex_);
    const auto acting = acting_.find(std::this_thread::get_id());
    fields.emplace_back("by", acting == acting_.end() ? "server" : acting->second);
  }
  fields.insert(fields.end(), more.begin(), more.end());
  log_.Append(event, std::move(fields));
}

void AuditTrail::CallRefused(std::string_view rpc, const std::string& peer,
                             const std::string& reason, const std::string& message) {
  AuditLog::Fields fields = {
      {"rpc", std::string(rpc)}, {"peer", peer}, {"reason", reason}, {"message", message}};
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = now_();
    if (now - period_begin_ >= kRefusalsPeriod) {
      period_begin_ = now;
      refusals_ = 0;
    }
    if (refusals_ >= kRefusalsMax) {
      ++not_logged_;
      return;
    }
    ++refusals_;
    const uint64_t not_logged = std::exchange(not_logged_, 0);
    if (not_logged > 0) fields.emplace_back("refused_before", absl::StrCat(not_logged));
  }
  log_.Append("call_refused", std::move(fields));
}

void AuditTrail::Server(std::string_view event, AuditLog::Fields fields) {
  log_.Append(event, std::move(fields));
}

}  // namespace sparseagg
