// Simulates the task service with owners, workers, a disk that is full at times, and crashes at the
// failpoints of the store, on one thread and with simulated time. A seed decides everything. After
// every step the real service is compared with the model of task_model.h.
//
//   SPARSEAGG_SIM_SEED=N task_sim_test      runs that seed and prints its steps
//
// SPARSEAGG_TASK_SIM_SEEDS (150) is the number of seeds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/service/tasks/task_bench.h"
#include "tests/sim/task_model.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::sim {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kSteps = 120;
constexpr char kFull[] = "SIMULATED_FULL";

struct Counts {
  uint64_t leases = 0;
  uint64_t fenced = 0;
  uint64_t completed = 0;
  uint64_t by_update = 0;  // completed without CompleteTask
  uint64_t crashes = 0;
  uint64_t disk_errors = 0;
  uint64_t read_unstored = 0;  // answers although the disk was full
  uint64_t repeated = 0;       // acquisitions
};

// One lease that a worker was given, perhaps long ago.
struct Held {
  std::string group;
  uint32_t number = 0;
  uint64_t token = 0;
};

class TaskSimulation {
 public:
  TaskSimulation(uint64_t seed, std::string folder, bool verbose)
      : random_(seed), folder_(std::move(folder)), verbose_(verbose) {
    bench_.rounds_of_store = true;
  }

  // Returns the first difference from the model; empty: none.
  std::string Run() {
    if (const absl::Status started = Start(); !started.ok()) return started.ToString();
    for (int step = 0; step < kSteps; ++step) {
      const std::string differs = Step();
      if (!differs.empty()) return absl::StrCat("step ", step, ": ", differs);
    }
    return "";
  }
  const Counts& counts() const { return counts_; }

 private:
  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(size_t percent) { return Below(100) < percent; }
  void Log(const std::string& line) {
    if (verbose_) std::cout << line << "\n";
  }

  absl::Status Start() {
    bench_.MoveTo(absl::StrCat(folder_, "/", lives_));
    return bench_.Start();
  }

  absl::Status PassFailpoint(Failpoint point) {
    if (!armed_) return absl::OkStatus();
    const int index = passed_++;
    if (index == crash_at_) {
      crashed_ = true;
      fs::copy(absl::StrCat(folder_, "/", lives_), absl::StrCat(folder_, "/", lives_ + 1),
               fs::copy_options::recursive);
    }
    if (index != fail_at_ || !kFailpoints[static_cast<size_t>(point)].may_fail) {
      return absl::OkStatus();
    }
    failed_ = true;
    ++counts_.disk_errors;
    return MakeError(absl::StatusCode::kResourceExhausted, kFull, "simulated");
  }

  // Runs one call, during which the disk may fail or the process may end. `apply` changes the model
  // after Settle() and says what is wrong with the answer. `refuse` says it of an answer that was
  // given although the disk has failed, with the model before the call and after Settle().
  template <class Call, class Apply>
  std::string Do(const std::string& what, Call call, Apply apply) {
    return Do(what, call, apply, [](const auto&, TaskModel&, TaskModel&) { return ""; });
  }
  template <class Call, class Apply, class Refuse>
  std::string Do(const std::string& what, Call call, Apply apply, Refuse refuse) {
    before_ = model_;
    armed_ = true;
    passed_ = 0;
    crashed_ = failed_ = false;
    crash_at_ = Chance(15) ? static_cast<int>(Below(4)) : -1;
    fail_at_ = Chance(10) ? static_cast<int>(Below(4)) : -1;
    auto answer = call();
    armed_ = false;
    Log(absl::StrCat(what, crashed_ ? " (crash)" : "", failed_ ? " (full)" : ""));
    std::string wrong;
    if (!failed_) {
      model_.Settle();
      wrong = apply(answer);
    } else {
      TaskModel settled = model_;
      settled.Settle();
      wrong = refuse(answer, before_, settled);
    }
    if (!wrong.empty()) return absl::StrCat(what, ": ", wrong);
    if (crashed_) return Recover();
    bench_.tasks().Tick();
    unseen_ms_ = 0;
    model_.Settle();
    return Compare(model_);
  }

  std::string Step() {
    switch (Below(13)) {
      case 0:
        return Create();
      case 1:
        return EndRound();
      case 2:
        return PassTime();
      case 3:
        return Submit();
      case 4:
        return Renew();
      case 5:
      case 6:
        return Complete();
      case 7:
        return Fail();
      case 8:
        return Chance(30) ? Cancel() : "";
      case 9:
        return Tick();
      case 10:
        return Look();
      default:
        return Acquire();
    }
  }

  std::string Create() {
    const std::string round = absl::StrCat("rounds/r", Below(3));
    if (!model_.open.contains(round)) {
      if (exists_.contains(round) || model_.deleted.contains(round)) return "";
      bench_.OpenRound(round, Durability::kDurable);
      std::erase_if(model_.counted, [&](const auto& item) { return item.first == round; });
      model_.open.insert(round);
      exists_.insert(round);
    }
    TaskGroupSpec spec{.group_id = absl::StrCat("g", ++groups_), .pool = "pool", .round = round};
    spec.count = static_cast<uint32_t>(1 + Below(4));
    spec.lease = milliseconds(1000 * (1 + Below(20)));
    spec.attempts_max = static_cast<uint32_t>(1 + Below(3));
    if (Chance(20)) spec.open_for = milliseconds(1000 * (1 + Below(60)));
    spec.payload = std::string(Below(3), 'x');
    return Do(
        absl::StrCat("create ", spec.group_id, " for ", round),
        [&] { return bench_.tasks().Create({.groups = {spec}}).status(); },
        [&](const absl::Status& created) -> std::string {
          if (!created.ok()) return created.ToString();
          ModelGroup group{.id = spec.group_id,
                           .round = round,
                           .order = static_cast<uint64_t>(groups_),
                           .lease = spec.lease.count(),
                           .attempts_max = spec.attempts_max,
                           .tasks = std::vector<ModelTask>(*spec.count)};
          if (spec.open_for.has_value())
            group.deadline = model_.world_clock + spec.open_for->count();
          model_.groups.emplace(group.id, std::move(group));
          return "";
        });
  }

  // Seals an open round, or deletes a sealed one. The tasks hear of it at the next call.
  std::string EndRound() {
    const std::string round = absl::StrCat("rounds/r", Below(3));
    RoundSnapshot snapshot;
    snapshot.tenant = "default";
    snapshot.name = round;
    if (model_.open.contains(round)) {
      if (Chance(50)) return "";
      bench_.store().CloseRound(round, "").IgnoreError();
      snapshot.state = RoundState::kSealed;
      model_.open.erase(round);
      model_.closed.insert(round);
    } else {
      if (exists_.erase(round) == 0) return "";
      bench_.store().EraseRound(round).IgnoreError();
      snapshot.state = RoundState::kRetired;
      std::erase_if(model_.counted, [&](const auto& item) { return item.first == round; });
      model_.deleted.insert(round);
    }
    bench_.tasks().OnRoundState(snapshot);
    Log(absl::StrCat("end of ", round));
    return "";
  }

  std::string PassTime() {
    const auto time = milliseconds(100 * (1 + Below(80)));
    bench_.Pass(time);
    model_.lease_clock += time.count();
    model_.world_clock += time.count();
    unseen_ms_ += time.count();
    Log(absl::StrCat("pass ", time.count(), " ms"));
    return "";
  }

  std::string Tick() {
    return Do(
        "tick", [&] { return (bench_.tasks().Tick(), 0); }, [](int) { return ""; });
  }

  // The update of a task arrives, from whichever worker.
  std::string Submit() {
    if (model_.groups.empty()) return "";
    auto group = model_.groups.begin();
    std::advance(group, Below(model_.groups.size()));
    const std::string& round = group->second.round;
    if (!model_.open.contains(round)) return "";
    const std::string contributor =
        absl::StrCat(group->first, "/", 1 + Below(group->second.tasks.size()));
    const auto receipt = bench_.Submit(round, contributor);
    if (!receipt.ok()) return receipt.status().ToString();
    model_.counted.emplace(round, contributor);
    Log(absl::StrCat("submit ", contributor));
    return "";
  }

  std::string Acquire() {
    const auto max = static_cast<uint32_t>(1 + Below(3));
    // The call may be one that was made before.
    const bool is_repeated = !acquisitions_.empty() && Chance(20);
    const size_t call = is_repeated ? Below(acquisitions_.size()) : acquisitions_.size();
    if (!is_repeated) {
      acquisitions_.emplace_back(absl::StrCat("w", Below(3)), absl::StrCat("a", ++requests_));
    }
    const std::string worker = acquisitions_[call].first;
    const std::string request = acquisitions_[call].second;
    return Do(
        absl::StrCat("acquire ", max, " for ", worker, " ", request),
        [&] { return bench_.Acquire(worker, max, request); },
        [&](const absl::StatusOr<AcquiredTasks>& answer) -> std::string {
          if (!answer.ok()) return answer.status().ToString();
          if (model_.requests.contains({worker, request})) {
            ++counts_.repeated;
            return CheckRepeated(*answer, model_.LeasesOf(worker, request));
          }
          size_t available = 0;
          for (const auto& [id, group] : model_.groups) available += model_.CountAvailable(group);
          if (answer->tasks.size() != std::min<size_t>(max, available)) {
            return absl::StrCat(answer->tasks.size(), " tasks of ", available, " available");
          }
          if (!answer->tasks.empty()) model_.requests.emplace(worker, request);
          for (const TaskSnapshot& task : answer->tasks) {
            const TaskName name = ParseTaskName(task.name).value();
            const Held held{name.group.substr(kTaskGroupPrefix.size()), name.number,
                            task.lease->token};
            const std::string wrong =
                model_.Give(held.group, held.number, held.token, worker, request);
            if (!wrong.empty()) return absl::StrCat("gave ", task.name, " ", wrong);
            if (held.token <= last_token_) return "a token that is not larger than all before";
            last_token_ = held.token;
            held_.push_back(held);
            ++counts_.leases;
          }
          return "";
        },
        [&](const absl::StatusOr<AcquiredTasks>& answer, TaskModel&,
            TaskModel& settled) -> std::string {
          if (!answer.ok()) return "";
          // It found nothing, and that needs no disk.
          ++counts_.read_unstored;
          size_t available = 0;
          for (const auto& [id, group] : settled.groups) available += settled.CountAvailable(group);
          if (settled.requests.contains({worker, request})) available = 0;
          return answer->tasks.empty() && available == 0 ? "" : "an answer that was not stored";
        });
  }

  static std::string CheckRepeated(const AcquiredTasks& answer, const std::set<uint64_t>& due) {
    std::set<uint64_t> tokens;
    for (const TaskSnapshot& task : answer.tasks) tokens.insert(task.lease->token);
    return tokens == due
               ? ""
               : absl::StrCat(tokens.size(), " leases of a repeated request, not ", due.size());
  }

  // Reads a task. On a full disk one sees what is stored.
  std::string Look() {
    if (model_.groups.empty()) return "";
    auto group = model_.groups.begin();
    std::advance(group, Below(model_.groups.size()));
    const std::string id = group->first;
    const auto number = static_cast<uint32_t>(1 + Below(group->second.tasks.size()));
    const std::string name = TaskNameOf(absl::StrCat("taskgroups/", id), number);
    const auto is_seen = [&](const absl::StatusOr<TaskSnapshot>& seen, TaskModel& model) {
      if (!model.groups.contains(id)) return ErrorReason(seen.status()) == "TASK_NOT_FOUND";
      return seen.ok() && seen->state == model.At(id, number).state;
    };
    return Do(
        absl::StrCat("get ", name), [&] { return bench_.tasks().Get("default", {}, name); },
        [&](const absl::StatusOr<TaskSnapshot>& seen) {
          return is_seen(seen, model_) ? "" : "it shows something else";
        },
        [&](const absl::StatusOr<TaskSnapshot>& seen, TaskModel& before, TaskModel& settled) {
          ++counts_.read_unstored;
          const bool is = is_seen(seen, before) || is_seen(seen, settled);
          return is ? "" : "without the disk it shows something else";
        });
  }

  // A lease that was given at some time and whose group still exists.
  std::optional<Held> AnyHeld() {
    for (int i = 0; i < 10 && !held_.empty(); ++i) {
      // Mostly one of the newest.
      const size_t back = std::min(Below(4) * Below(4), held_.size() - 1);
      const Held& held = held_[held_.size() - 1 - back];
      const auto group = model_.groups.find(held.group);
      if (group == model_.groups.end()) continue;
      const bool ends = model_.deleted.contains(group->second.round);
      if (!ends) return held;
    }
    return std::nullopt;
  }
  static std::string NameOf(const Held& held) {
    return TaskNameOf(absl::StrCat("taskgroups/", held.group), held.number);
  }
  std::string CheckReason(const absl::Status& status, const std::string& due) {
    const std::string reason = status.ok() ? "" : ErrorReason(status);
    counts_.fenced += reason == "TASK_FENCED" ? 1 : 0;
    return reason == due ? "" : absl::StrCat("\"", reason, "\" instead of \"", due, "\"");
  }

  std::string Renew() {
    const auto held = AnyHeld();
    if (!held.has_value()) return "";
    const TaskLeaseKey lease{NameOf(*held), held->token};
    return Do(
        absl::StrCat("renew ", lease.task),
        [&] {
          auto renewed = bench_.tasks().Renew("default", {}, {&lease, 1});
          return renewed.ok() ? renewed->at(0).status() : renewed.status();
        },
        [&](const absl::Status& status) {
          return CheckReason(status, model_.Renew(held->group, held->number, held->token));
        });
  }

  std::string Complete() {
    const auto held = AnyHeld();
    if (!held.has_value()) return "";
    const std::string round = model_.groups.at(held->group).round;
    const std::string contributor = absl::StrCat(held->group, "/", held->number);
    if (model_.open.contains(round) && Chance(70) && bench_.Submit(round, contributor).ok()) {
      model_.counted.emplace(round, contributor);
    }
    const bool is_receipt = Chance(90);
    const Receipt receipt{.round = round,
                          .contributor = contributor,
                          .update_id = "u",
                          .digest = std::string(32, is_receipt ? 'u' : 'x')};
    return Do(
        absl::StrCat("complete ", NameOf(*held)),
        [&] {
          return bench_.tasks()
              .Complete("default", {}, {NameOf(*held), held->token}, receipt)
              .status();
        },
        [&](const absl::Status& status) {
          const auto due = model_.Complete(held->group, held->number, held->token, is_receipt);
          counts_.completed += due.empty() ? 1 : 0;
          return CheckReason(status, due);
        });
  }

  std::string Fail() {
    const auto held = AnyHeld();
    if (!held.has_value()) return "";
    const bool retryable = Chance(60);
    const bool handed_back = Chance(30);
    return Do(
        absl::StrCat("fail ", NameOf(*held)),
        [&] {
          return bench_.tasks()
              .Fail("default", {}, {NameOf(*held), held->token},
                    {.retryable = retryable, .handed_back = handed_back})
              .status();
        },
        [&](const absl::Status& status) {
          return CheckReason(
              status, model_.Fail(held->group, held->number, held->token, retryable, handed_back));
        });
  }

  std::string Cancel() {
    if (model_.groups.empty()) return "";
    auto group = model_.groups.begin();
    std::advance(group, Below(model_.groups.size()));
    const std::string id = group->first;
    if (model_.deleted.contains(group->second.round)) return "";
    return Do(
        absl::StrCat("cancel ", id),
        [&] {
          return bench_.tasks().Cancel("default", {absl::StrCat("taskgroups/", id)}).status();
        },
        [&](const absl::Status& status) {
          model_.Cancel(id);
          return CheckReason(status, "");
        });
  }

  // The process has ended in the last step: the next one starts on what was on the disk then. What
  // it has must be the model before or after that step.
  std::string Recover() {
    ++counts_.crashes;
    ++lives_;
    if (const absl::Status started = Start(); !started.ok()) return started.ToString();
    std::string differs;
    for (TaskModel candidate : Candidates()) {
      const std::string clock = AdjustClock(candidate);
      candidate.Settle();
      differs = clock.empty() ? Compare(candidate) : clock;
      if (!differs.empty()) continue;
      // A start surely remembers what tasks still show. What those of a deleted round showed it may
      // have read or not: such calls are not repeated.
      const auto leased = candidate.requests;
      candidate.ForgetRequests();
      std::erase_if(acquisitions_, [&](const auto& request) {
        return leased.contains(request) && !candidate.requests.contains(request);
      });
      model_ = std::move(candidate);
      unseen_ms_ = 0;
      return "";
    }
    return absl::StrCat("after the crash: ", differs);
  }

  // The models before and after the last step. The clock of leases may be behind, so that a lease
  // has not ended when a deadline passes; if no lease is left, nothing shows by how much.
  std::vector<TaskModel> Candidates() const {
    std::vector<TaskModel> candidates{before_, model_};
    for (const TaskModel& model : {before_, model_}) {
      for (const auto& [id, group] : model.groups) {
        for (const ModelTask& task : group.tasks) {
          if (task.state != TaskState::kLeased || task.lease_end > model.lease_clock) continue;
          candidates.push_back(model);
          candidates.back().lease_clock = task.lease_end - 1;
        }
      }
    }
    return candidates;
  }

  // Sets the clock of leases to that of the new process, as its leases show it. It may be 5 s
  // behind, and the time since the last call.
  std::string AdjustClock(TaskModel& candidate) {
    const int64_t behind_max = 5000 + unseen_ms_;
    for (const auto& [id, group] : candidate.groups) {
      for (size_t n = 1; n <= group.tasks.size(); ++n) {
        const auto task =
            bench_.tasks().Get("default", {}, TaskNameOf(absl::StrCat("taskgroups/", id), n));
        const ModelTask& model = group.tasks[n - 1];
        if (!task.ok() || !task->lease.has_value() || model.state != TaskState::kLeased) continue;
        if (task->lease->token != model.token) return "another lease";
        const int64_t clock = model.lease_end - task->lease->time_left.count();
        if (clock > model_.lease_clock || clock < model_.lease_clock - behind_max) {
          return absl::StrCat("the clock of leases moved by ", clock - candidate.lease_clock);
        }
        candidate.lease_clock = clock;
        return "";
      }
    }
    return "";
  }

  std::string Compare(TaskModel& model) {
    size_t tasks = 0;
    for (auto& [id, group] : model.groups) {
      for (uint32_t n = 1; n <= group.tasks.size(); ++n, ++tasks) {
        const std::string name = TaskNameOf(absl::StrCat("taskgroups/", id), n);
        const auto seen = bench_.tasks().Get("default", {}, name);
        if (!seen.ok()) return seen.status().ToString();
        const ModelTask& task = group.tasks[n - 1];
        if (seen->state == TaskState::kCompleted && task.state == TaskState::kAvailable) {
          ++counts_.by_update;
          model.CompleteCounted(id, n);  // an acquisition has found it
        }
        if (seen->state != task.state || seen->end != task.end || seen->leases != task.leases ||
            seen->attempts != task.attempts || seen->worker != task.worker) {
          return absl::StrCat(name, " is ", std::string(TaskStateName(seen->state)), " ",
                              seen->attempts, "/", seen->leases, " ", seen->worker,
                              ", in the model ", std::string(TaskStateName(task.state)), " ",
                              task.attempts, "/", task.leases, " ", task.worker);
        }
        if (!seen->lease.has_value()) continue;
        if (seen->lease->token != task.token ||
            seen->lease->time_left.count() != task.lease_end - model.lease_clock) {
          return absl::StrCat(
              name, " has another lease than in the model: ", seen->lease->time_left.count(),
              " ms, in the model ", task.lease_end - model.lease_clock);
        }
      }
    }
    const TaskStats stats = bench_.tasks().Stats();
    const uint64_t real = stats.available + stats.leased + stats.finished;
    return real == tasks ? "" : absl::StrCat(real, " tasks, in the model ", tasks);
  }

  std::mt19937_64 random_;
  const std::string folder_;
  const bool verbose_;
  int lives_ = 0;
  int groups_ = 0;
  int requests_ = 0;
  uint64_t last_token_ = 0;
  std::vector<Held> held_;
  std::vector<std::pair<std::string, std::string>> acquisitions_;  // worker and request id
  testing::TaskBench bench_{
      "x", FailpointHook([this](Failpoint point) { return PassFailpoint(point); })};
  std::set<std::string> exists_;  // rounds, open or sealed
  TaskModel model_;
  TaskModel before_;
  int64_t unseen_ms_ = 0;  // time since the last call
  bool armed_ = false;
  int passed_ = 0;
  int crash_at_ = -1;
  int fail_at_ = -1;
  bool crashed_ = false;
  bool failed_ = false;
  Counts counts_;
};

std::string RunSeed(uint64_t seed, bool verbose, Counts& total) {
  const testing::TemporaryFolder folder(fs::exists("/dev/shm") ? "/dev/shm"
                                                               : fs::temp_directory_path());
  TaskSimulation simulation(seed, folder.path(), verbose);
  const std::string differs = simulation.Run();
  const Counts& counts = simulation.counts();
  total.leases += counts.leases;
  total.fenced += counts.fenced;
  total.completed += counts.completed;
  total.by_update += counts.by_update;
  total.crashes += counts.crashes;
  total.disk_errors += counts.disk_errors;
  total.read_unstored += counts.read_unstored;
  total.repeated += counts.repeated;
  return differs;
}

TEST(TaskSimTest, WhateverHappensTheTasksAreTheModel) {
  Counts total;
  if (const char* seed = std::getenv("SPARSEAGG_SIM_SEED"); seed != nullptr) {
    EXPECT_EQ(RunSeed(std::strtoull(seed, nullptr, 10), true, total), "");
    return;
  }
  const int seeds = testing::Effort("SPARSEAGG_TASK_SIM_SEEDS", 150);
  for (int seed = 1; seed <= seeds; ++seed) {
    ASSERT_EQ(RunSeed(static_cast<uint64_t>(seed), false, total), "")
        << "SPARSEAGG_SIM_SEED=" << seed << " runs it again and prints its steps";
  }
  std::cout << seeds << " seeds: " << total.leases << " leases, " << total.fenced
            << " fenced calls, " << total.completed << " completions, " << total.by_update
            << " by an update alone, " << total.crashes << " crashes, " << total.disk_errors
            << " errors of the disk, " << total.read_unstored << " answers without it, "
            << total.repeated << " repeated acquisitions\n";
  // Each of these must happen, because a simulation without an event does not test it.
  EXPECT_GT(total.leases, static_cast<uint64_t>(5 * seeds));
  EXPECT_GT(total.fenced, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.completed, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.by_update, 0u);
  EXPECT_GT(total.crashes, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.disk_errors, static_cast<uint64_t>(seeds) / 2);
  EXPECT_GT(total.read_unstored, 0u);
  EXPECT_GT(total.repeated, static_cast<uint64_t>(seeds) / 2);
}

}  // namespace
}  // namespace sparseagg::sim
