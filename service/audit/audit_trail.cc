#include "service/audit/audit_trail.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sparseagg {

AuditTrail::~AuditTrail() {
  RecordSuppressed(unauthenticated_);
  RecordSuppressed(authenticated_);
}

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

void AuditTrail::Changed(std::string_view event, AuditLog::Fields fields,
                         const AuditLog::Fields& more) {
  {
    const std::lock_guard lock(mutex_);
    const auto acting = acting_.find(std::this_thread::get_id());
    fields.emplace_back("by", acting == acting_.end() ? "server" : acting->second);
  }
  fields.insert(fields.end(), more.begin(), more.end());
  log_.Append(event, std::move(fields));
}

void AuditTrail::RoundChanged(std::string_view event, const std::string& tenant,
                              const std::string& round, const AuditLog::Fields& more) {
  Changed(event, {{"tenant", tenant}, {"round", round}}, more);
}

void AuditTrail::TasksChanged(std::string_view event, const std::string& tenant,
                              const AuditLog::Fields& more) {
  Changed(event, {{"tenant", tenant}}, more);
}

void AuditTrail::CallRefused(Refused who, std::string_view rpc, const std::string& peer,
                             const std::string& reason, const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    Allowance& allowance = who == Refused::kUnauthenticated ? unauthenticated_ : authenticated_;
    EndPeriod(allowance);
    if (allowance.lines >= kRefusalsMax) {
      ++allowance.suppressed;
      return;
    }
    ++allowance.lines;
  }
  log_.Append(
      "call_refused",
      {{"rpc", std::string(rpc)}, {"peer", peer}, {"reason", reason}, {"message", message}});
}

void AuditTrail::EndPeriods() {
  const std::lock_guard lock(mutex_);
  EndPeriod(unauthenticated_);
  EndPeriod(authenticated_);
}

void AuditTrail::EndPeriod(Allowance& allowance) {
  const Clock::time_point now = now_();
  if (now - allowance.period_begin < kRefusalsPeriod) return;
  RecordSuppressed(allowance);
  allowance.period_begin = now;
  allowance.lines = 0;
}

void AuditTrail::RecordSuppressed(Allowance& allowance) {
  const uint64_t calls = std::exchange(allowance.suppressed, 0);
  if (calls == 0) return;
  log_.Append("more_calls_refused",
              {{"callers", allowance.callers}, {"calls", absl::StrCat(calls)}});
}

void AuditTrail::RecordServerEvent(std::string_view event, AuditLog::Fields fields) {
  log_.Append(event, std::move(fields));
}

}  // namespace sparseagg
