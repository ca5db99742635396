// What is worth a line of the audit log, and who did it. Changes of rounds are reported by the
// engine, on the thread that makes them; the edge says for whom a thread is at work.
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
  // Tells how many refused calls have no line.
  ~AuditTrail();
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  // Until the handle is gone, what this thread does is done by `principal`. To be let go on the
  // same thread. REQUIRES: the trail outlives the handle.
  std::shared_ptr<void> ActingFor(const std::string& principal);

  // "by" is whom this thread acts for, "server" for nobody.
  void RoundChanged(std::string_view event, const std::string& tenant, const std::string& round,
                    AuditLog::Fields more);
  // A call without the credential or role for it. At most kRefusalsMax lines in kRefusalsPeriod
  // for strangers and as many for callers with a good credential, so that the ones cannot hide the
  // others; a line after the period says how many there were beside.
  enum class Refused : uint8_t { kStranger, kKnownCaller };
  void CallRefused(Refused who, std::string_view rpc, const std::string& peer,
                   const std::string& reason, const std::string& message);
  // To be called now and then: ends periods that are over.
  void EndPeriods();
  // Anything else of the server itself.
  void Server(std::string_view event, AuditLog::Fields fields);

  static constexpr int kRefusalsMax = 20;
  static constexpr std::chrono::seconds kRefusalsPeriod{10};

 private:
  struct Allowance {
    std::string callers;
    Clock::time_point period_begin{};
    int lines = 0;            // in this period
    uint64_t not_logged = 0;  // beside them
  };
  // REQUIRES: mutex_ is held.
  void EndPeriod(Allowance& allowance);
  void TellNotLogged(Allowance& allowance);

  AuditLog& log_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;  // guards what follows
  std::map<std::thread::id, std::string> acting_;
  Allowance strangers_{.callers = "strangers"};
  Allowance known_callers_{.callers = "known"};
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUDIT_AUDIT_TRAIL_H_
