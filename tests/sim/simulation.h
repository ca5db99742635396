// One server with its clients, disk, device and clock, on one thread: a seed decides everything
// that happens. After every step, what can be seen of the engine is compared with the model.
//
// The engine and the store are the real ones. The disk is a folder in memory; it is full, or fails
// once, where the store has failpoints. A crash is the folder as it was at a failpoint, or between
// two steps, taken up by a new store and engine. Time is the simulation's.
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

  // What differs from the model, first; empty: nothing.
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
    int fail_at = -1;   // the number of the failpoint that fails once
    int crash_at = -1;  // at which the process ends
    int passed = 0;
    int errors = 0;
    bool crashed = false;
  };

  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(size_t percent) { return Below(100) < percent; }
  std::string RoundName() { return "rounds/r" + std::to_string(Below(3)); }
  Policy RandomPolicy();
  Update RandomUpdate();
  // Whether nobody knows if the round still takes updates.
  bool Unsure(const std::string& round) const {
    const auto found = model_.rounds.find(round);
    return found != model_.rounds.end() && found->second.state == RoundState::kOpen &&
           found->second.grace_unsure;
  }
  absl::StatusOr<Receipt> Send(const Update& update);

  // The server.
  absl::Status Start();
  void Stop();
  absl::Status PassFailpoint(Failpoint point);
  std::string Folder(int life) const { return folder_ + "/" + std::to_string(life); }
  void CopyDisk();
  // The next life on a copy of the disk; the model is what it was before or after the step.
  std::string Recover();
  std::string RecoverAs(const Model& candidate);
  void WatchRound(const std::string& name);

  // One step each; an answer that is not the model's, or "".
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

  // Whether an answer is the one that is due. One of a full disk always may be, and takes back what
  // the model did in this step.
  std::string CheckReason(const std::string& due, const absl::Status& status);
  std::string CheckReceipt(const Update& update, const Answer& due,
                           const absl::StatusOr<Receipt>& receipt);
  // `settled`: watchers have been told of everything. Until then they may not know of updates.
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
  Model before_;  // the step under way
  // Updates of which some bytes were sent, and how many.
  std::map<std::string, std::pair<Update, uint64_t>> uploads_;
  Counts counts_;
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_SIMULATION_H_
