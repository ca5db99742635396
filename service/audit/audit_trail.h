// Decides which events get a line of the audit log, and attributes them. The engine reports changes
// of rounds on the thread that makes them; the RPC layer states for which caller a thread works.
#ifndef SPARSEAGG_SERVICE_AUDIT_AUDIT_TRAIL_H_
#define SPARSEAGG_SERVICE_AUDIT_AUDIT_TRAIL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "service/audit/audit_log.h"

namespace sparseagg {

// Thread-safe.
class AuditTrail {
 public:
  using Clock = std::chrono::steady_clock;

  // `log` must outlive the trail.
  explicit AuditTrail(AuditLog& log, std::function<Clock::time_point()> now = Clock::now)
      : log_(log), now_(std::move(now)) {}
  // Logs how many refused calls got no line.
  ~AuditTrail();
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  // Attributes the changes that this thread makes to `principal`, until the handle is destroyed.
  // REQUIRES: the handle is destroyed on the same thread, and before the trail.
  std::shared_ptr<void> ActingFor(const std::string& principal);

  // The field "by" is the principal for whom this thread acts, or "server".
  void RoundChanged(std::string_view event, const std::string& tenant, const std::string& round,
                    const AuditLog::Fields& more);
  // The same for tasks.
  void TasksChanged(std::string_view event, const std::string& tenant,
                    const AuditLog::Fields& more);
  // Records a call that was refused for its credential or role. Writes at most kRefusalsMax lines
  // in kRefusalsPeriod for unauthenticated callers, and as many for authenticated ones, so that the
  // former cannot crowd out the latter; a line after the period states how many more there were.
  enum class Refused : uint8_t { kUnauthenticated, kAuthenticated };
  void CallRefused(Refused who, std::string_view rpc, const std::string& peer,
                   const std::string& reason, const std::string& message);
  // Ends the periods that are over. To be called regularly.
  void EndPeriods();
  // Records any other event of the server itself.
  void RecordServerEvent(std::string_view event, AuditLog::Fields fields);

  static constexpr int kRefusalsMax = 20;
  static constexpr std::chrono::seconds kRefusalsPeriod{10};

 private:
  // Appends an event with the field "by", and then `more`.
  void Changed(std::string_view event, AuditLog::Fields fields, const AuditLog::Fields& more);

  struct Allowance {
    std::string callers;
    Clock::time_point period_begin{};
    int lines = 0;            // written in this period
    uint64_t suppressed = 0;  // refusals without a line
  };
  // REQUIRES: mutex_ is held.
  void EndPeriod(Allowance& allowance);
  void RecordSuppressed(Allowance& allowance);

  AuditLog& log_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;  // guards what follows
  std::map<std::thread::id, std::string> acting_;
  Allowance unauthenticated_{.callers = "strangers"};
  Allowance authenticated_{.callers = "known"};
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUDIT_AUDIT_TRAIL_H_
