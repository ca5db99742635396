// Simulates one server with its clients, disk, device and clock, on one thread. A seed decides
// everything that happens. After every step, the visible state of the engine is compared with the
// model.
//
// The engine and the store are the real ones. The disk is a folder in memory; at the store's
// failpoints it is full or fails once. A crash is a copy of the folder at a failpoint or between
// two steps, opened by a new store and engine. Time is simulated.
#ifndef SPARSEAGG_TESTS_SIM_SIMULATION_H_
#define SPARSEAGG_TESTS_SIM_SIMULATION_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "service/engine/engine.h"
#include "service/store/failpoints.h"
#include "tests/sim/faulty_backend.h"
#include "tests/sim/model.h"
#include "tests/support/manual_executor.h"

namespace sparseagg::sim {

struct Counts {
  uint64_t steps = 0;
  uint64_t accepted = 0;
  uint64_t duplicates = 0;
  uint64_t refused = 0;
  uint64_t published = 0;
  uint64_t crashes = 0;
  uint64_t disk_errors = 0;
  uint64_t devices_lost = 0;
};

class Simulation {
 public:
  // `folder` is the disk. `log` gets a line for each step.
  Simulation(uint64_t seed, std::string folder, std::function<void(const std::string&)> log);
  ~Simulation();

  // Returns the first difference from the model; empty: none.
  std::string Run(int steps);
  const Counts& counts() const { return counts_; }

 private:
  using Random = std::mt19937_64;
  struct Watch {
    uint64_t revision = 0;
    RoundState state = RoundState::kOpen;
    bool deleted = false;
    WatchHandle handle;
  };
  // The disk during one step.
  struct Disk {
    int fail_at = -1;   // index of the failpoint that fails once
    int crash_at = -1;  // index of the failpoint at which the process ends
    int passed = 0;
    int errors = 0;
    bool crashed = false;
  };

  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(size_t percent) { return Below(100) < percent; }
  std::string RoundName() { return "rounds/r" + std::to_string(Below(3)); }
  Policy RandomPolicy();
  Update RandomUpdate();
  // Returns whether the round may or may not still accept updates.
  bool MayBeClosed(const std::string& round) const {
    const auto found = model_.rounds.find(round);
    return found != model_.rounds.end() && found->second.state == RoundState::kOpen &&
           found->second.grace_uncertain;
  }
  absl::StatusOr<Receipt> Send(const Update& update);

  // Starting, stopping and crashing the server.
  absl::Status Start();
  void Stop();
  absl::Status PassFailpoint(Failpoint point);
  std::string Folder(int life) const { return folder_ + "/" + std::to_string(life); }
  void CopyDisk();
  // Starts the next process on a copy of the disk. The model must be its state before or after the
  // step.
  std::string Recover();
  std::string RecoverAs(const Model& candidate);
  void WatchRound(const std::string& name);

  // Each performs one step and returns an answer that differs from the model's, or "".
  std::string Step();
  std::string Create();
  std::string Submit();
  std::string SubmitInChunks();
  absl::StatusOr<Receipt> Upload(const Update& update, uint64_t bytes_max);
  std::string Seal();
  std::string Abort();
  std::string Delete();
  std::string RunTask();
  std::string LoseDevice();
  std::string PassTime();
  std::string Settle();

  // These check that an answer is the expected one. An error of a full disk is always allowed; it
  // undoes the model's change of this step.
  std::string CheckReason(const std::string& due, const absl::Status& status);
  std::string CheckReceipt(const Update& update, const Answer& due,
                           const absl::StatusOr<Receipt>& receipt);
  // `settled`: watchers have received every change. Before that they may not know of updates.
  std::string Compare(bool settled = false);
  std::string CompareRound(const RoundSnapshot& seen, Round& round);
  std::string CompareResult(const std::string& name, const Round& round);
  std::string CompareReceipts();
  bool DiskRefused(const absl::Status& status) const;

  Random random_;
  const std::string folder_;
  const std::function<void(const std::string&)> log_;
  int lives_ = 0;  // processes so far; each has a folder of its own
  std::chrono::system_clock::time_point now_{std::chrono::hours(24 * 365 * 50)};

  FaultyBackend backend_;
  testing::ManualExecutor executor_;
  std::unique_ptr<UpdateStore> store_;
  std::unique_ptr<Engine> engine_;
  std::map<std::string, std::shared_ptr<Watch>> watches_;

  Disk disk_;
  bool full_ = false;
  Model model_;
  Model before_;  // the model before the current step
  // Updates of which some bytes were sent, and how many.
  std::map<std::string, std::pair<Update, uint64_t>> uploads_;
  Counts counts_;
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_SIMULATION_H_
