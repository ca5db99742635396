// Observers that forward each event to several others.
#ifndef SPARSEAGG_SERVICE_ADMIN_OBSERVERS_H_
#define SPARSEAGG_SERVICE_ADMIN_OBSERVERS_H_

#include <memory>
#include <utility>
#include <vector>

#include "service/engine/observer.h"
#include "service/rpc/call_observer.h"

namespace sparseagg {

class EngineObservers : public EngineObserver {
 public:
  explicit EngineObservers(std::vector<std::shared_ptr<EngineObserver>> all)
      : all_(std::move(all)) {}

  void OnRoundState(const RoundSnapshot& round) override {
    for (const auto& each : all_) each->OnRoundState(round);
  }
  void OnRoundStalled(const RoundSnapshot& round, const absl::Status& why) override {
    for (const auto& each : all_) each->OnRoundStalled(round, why);
  }
  void OnSubmission(const SubmissionReport& report) override {
    for (const auto& each : all_) each->OnSubmission(report);
  }
  void OnReduction(const ReductionReport& report) override {
    for (const auto& each : all_) each->OnReduction(report);
  }
  void OnVerification(const VerificationReport& report) override {
    for (const auto& each : all_) each->OnVerification(report);
  }

 private:
  const std::vector<std::shared_ptr<EngineObserver>> all_;
};

class CallObservers : public CallObserver {
 public:
  explicit CallObservers(std::vector<std::shared_ptr<CallObserver>> all) : all_(std::move(all)) {}

  void OnMethod(const CallMethod& method) override {
    for (const auto& each : all_) each->OnMethod(method);
  }
  void OnCallStarted(const CallMethod& method) override {
    for (const auto& each : all_) each->OnCallStarted(method);
  }
  void OnMessage(const CallMethod& method, uint64_t bytes_in, uint64_t bytes_out) override {
    for (const auto& each : all_) each->OnMessage(method, bytes_in, bytes_out);
  }
  void OnCallEnded(const CallMethod& method, const CallReport& report) override {
    for (const auto& each : all_) each->OnCallEnded(method, report);
  }

 private:
  const std::vector<std::shared_ptr<CallObserver>> all_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_OBSERVERS_H_
