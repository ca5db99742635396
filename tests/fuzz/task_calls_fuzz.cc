// Calls of owners and workers in any order, between updates, ends of rounds, passing time, a full
// disk and restarts. After each of them the counts of every group are those of its tasks' states;
// no token is handed out twice, a final state stays, and a call succeeds with the last token only.
//
//   input := step*; a step is u8 and what its function takes
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/names.h"
#include "service/tasks/tasks.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/task_stores.h"

namespace sparseagg::fuzz {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kStepsMax = 60;
constexpr size_t kGroups = 4;
const std::string kTenant(kDefaultTenant);

class World {
 public:
  World() {
    for (const char* name : {"rounds/a", "rounds/b"})
      rounds_[name].durability = Durability::kDurable;
    rounds_["rounds/m"].durability = Durability::kMemory;
    Start();
  }

  void Step(FuzzInput& input) {
    rows_.is_full = input.Below(16) == 0;
    switch (input.Below(12)) {
      case 0:
        Create(input);
        break;
      case 1:
      case 2:
        Acquire(input);
        break;
      case 3:
        Renew(input);
        break;
      case 4:
        Complete(input);
        break;
      case 5:
        Fail(input);
        break;
      case 6:
        Submit(input);
        break;
      case 7:
        PassTime(input);
        break;
      case 8:
        Cancel(input);
        break;
      case 9:
        EndRound(input);
        break;
      case 10:
        Ask(input);
        break;
      default:
        if (input.Below(4) == 0) Start();
    }
    rows_.is_full = false;
    Compare();
  }

 private:
  // What is known of a task, by its name.
  struct Known {
    uint64_t token = 0;   // of the last lease that a worker was told of
    std::string request;  // the worker and the request that got it
    std::optional<TaskSnapshot> final;
  };

  void Start() {
    rows_.is_full = false;
    tasks_.reset();
    updates_.Restart();
    TaskOptions options{.limits = {.tasks_max = 12, .task_bytes_max = 10'000}};
    options.now = [this] { return wall_; };
    options.steady_now = [this] { return steady_; };
    options.random = [this] { return ++random_; };
    tasks_ = std::make_unique<Tasks>(std::move(options), updates_, &rows_);
    for (auto round = rounds_.begin(); round != rounds_.end();) {
      const bool is_lost = round->second.durability == Durability::kMemory;
      round = is_lost ? rounds_.erase(round) : std::next(round);
    }
    const auto damaged = tasks_->Recover([this](const std::string& name) {
      const auto found = rounds_.find(name);
      return found == rounds_.end() ? absl::StatusOr<RoundOfTasks>(MakeError(
                                          absl::StatusCode::kNotFound, "ROUND_NOT_FOUND", name))
                                    : found->second;
    });
    Require(damaged.ok() && damaged->damaged_groups.empty() && damaged->damaged_tasks == 0,
            "what was stored cannot be read");
  }

  std::string TakeRound(FuzzInput& input) {
    constexpr const char* kRounds[] = {"rounds/a", "rounds/b", "rounds/m"};
    return kRounds[input.Below(3)];
  }
  std::string TakeGroup(FuzzInput& input) { return absl::StrCat("g", input.Below(kGroups)); }
  // One of the leases that a worker was ever told of, or any token of a task.
  TaskLeaseKey TakeLease(FuzzInput& input) {
    const size_t which = input.Below(256);
    if (leases_.empty() || which == 255) {
      const std::string group = TakeGroup(input);
      return {absl::StrCat("taskgroups/", group, "/tasks/", input.Below(4)), input.Below(3)};
    }
    return leases_[which % leases_.size()];
  }
  TaskViewer TakeViewer(FuzzInput& input) {
    const size_t which = input.Below(8);
    if (which < 6) return {};
    return {.worker = absl::StrCat("w", which)};
  }
  static void CheckError(const absl::Status& status) {
    Require(status.ok() || !ErrorReason(status).empty(), "an error without a reason");
  }

  void Create(FuzzInput& input) {
    TaskGroupSpec spec;
    spec.group_id = input.Below(8) == 0 ? "" : TakeGroup(input);
    spec.pool = input.Below(4) == 0 ? "q" : "p";
    spec.round = TakeRound(input);
    spec.payload = std::string(50 * input.Below(64), 'x');
    spec.lease = seconds(input.Below(4) * 10);
    spec.attempts_max = static_cast<uint32_t>(input.Below(4));
    if (input.Below(4) == 0) spec.required_capabilities = {"gpu"};
    if (input.Below(4) == 0) spec.open_for = seconds(1 + input.Below(60));
    if (input.Below(4) == 0) {
      spec.contributors = {"c", "d"};
    } else {
      spec.count = input.Below(5);
    }
    CreateTasksArgs args{.groups = {spec}};
    if (input.Below(3) == 0) args.request_id = absl::StrCat("r", input.Below(3));
    if (input.Below(8) == 0) args.groups.push_back(spec);
    CheckError(tasks_->Create(args).status());
  }

  void Acquire(FuzzInput& input) {
    AcquireArgs args{.worker = absl::StrCat("w", input.Below(8)), .pools = {"p", "q"}};
    args.max = static_cast<uint32_t>(input.Below(5));
    if (input.Below(2) == 0) args.capabilities = {"gpu"};
    if (input.Below(3) == 0) args.request_id = absl::StrCat("a", input.Below(3));
    const auto acquired = tasks_->Acquire(kTenant, args);
    CheckError(acquired.status());
    if (!acquired.ok()) return;
    // A repeated request gets the leases of the first, however many it wants.
    Require(acquired->tasks.size() <= std::max<size_t>(args.max, 1) || !args.request_id.empty(),
            "more tasks than wanted");
    Require(acquired->tasks.empty() == (acquired->retry.min.count() > 0),
            "tasks or a time to wait");
    for (const TaskSnapshot& task : acquired->tasks) Given(args, task);
  }

  void Given(const AcquireArgs& args, const TaskSnapshot& task) {
    Require(task.state == TaskState::kLeased && task.worker == args.worker, "a lease of another");
    Known& known = known_[task.name];
    Require(!known.final.has_value(), "a task that has ended is handed out");
    const std::string request = absl::StrCat(args.worker, "/", args.request_id);
    const uint64_t token = task.lease->token;
    if (tokens_.insert(token).second) {
      Require(token > known.token, "a token that is not larger than the last one");
      Require(!IsCounted(task), "a task whose update is counted is handed out");
      leases_.push_back({task.name, token});
    } else {
      const bool is_repeated = !args.request_id.empty() && known.request == request;
      Require(is_repeated && token == known.token, "a token is handed out twice");
    }
    known.token = token;
    known.request = request;
  }

  void Renew(FuzzInput& input) {
    const TaskLeaseKey lease = TakeLease(input);
    const auto renewed = tasks_->Renew(kTenant, TakeViewer(input), {&lease, 1});
    CheckError(renewed.status());
    if (!renewed.ok()) return;
    CheckError(renewed->at(0).status());
    if (!renewed->at(0).ok()) return;
    Require(known_[lease.task].token == lease.token, "an old token is renewed");
    Require(renewed->at(0)->time_left == renewed->at(0)->duration, "a lease is not renewed");
  }

  void Complete(FuzzInput& input) {
    const TaskLeaseKey lease = TakeLease(input);
    const auto before = tasks_->Get(kTenant, {}, lease.task);
    Receipt receipt{.round = std::string(input.Below(4) == 0 ? "rounds/x" : "")};
    if (before.ok()) {
      if (receipt.round.empty()) receipt.round = before->round;
      receipt.contributor = before->contributor;
      const auto counted = updates_.Find(before->round, before->contributor);
      if (counted.has_value()) {
        receipt.update_id = counted->update_id;
        receipt.digest = counted->digest;
      }
    }
    const auto completed = tasks_->Complete(kTenant, TakeViewer(input), lease, receipt);
    CheckError(completed.status());
    if (!completed.ok()) return;
    Require(completed->state == TaskState::kCompleted, "completed, and not COMPLETED");
    Require(IsCounted(*completed), "completed without an update");
    Require(known_[lease.task].token == lease.token, "an old token completes a task");
  }

  void Fail(FuzzInput& input) {
    const TaskLeaseKey lease = TakeLease(input);
    const FailArgs args{.reason = std::string(input.Bytes(input.Below(4))),
                        .retryable = input.Below(2) == 0,
                        .handed_back = input.Below(3) == 0};
    const auto failed = tasks_->Fail(kTenant, TakeViewer(input), lease, args);
    CheckError(failed.status());
    if (!failed.ok()) return;
    Require(failed->state != TaskState::kLeased, "a lease goes on after its worker gave it up");
    Require(known_[lease.task].token == lease.token, "an old token ends a lease");
  }

  void Submit(FuzzInput& input) {
    const std::string round = TakeRound(input);
    const std::string group = TakeGroup(input);
    const size_t number = input.Below(6);
    const auto open = rounds_.find(round);
    if (open == rounds_.end() || open->second.state != RoundState::kOpen) return;
    const std::string contributor = number == 5 ? "c" : absl::StrCat(group, "/", number);
    const UpdateRecord update{.round = round,
                              .contributor = contributor,
                              .update_id = "u",
                              .digest = std::string(32, 'd')};
    updates_.Put(update, {}).status().IgnoreError();
  }

  void PassTime(FuzzInput& input) {
    const milliseconds time(input.Take<uint16_t>());
    steady_ += time;
    wall_ += time;
    tasks_->Tick();
  }

  void Cancel(FuzzInput& input) {
    const std::string group = absl::StrCat("taskgroups/", TakeGroup(input));
    std::vector<std::string> names{group};
    if (input.Below(2) == 0) names = {absl::StrCat(group, "/tasks/", input.Below(5)), group};
    if (input.Below(8) == 0) names.emplace_back(input.Bytes(input.Below(30)));
    CheckError(tasks_->Cancel(kTenant, names).status());
  }

  void EndRound(FuzzInput& input) {
    const std::string round = TakeRound(input);
    const bool is_deleted = input.Below(2) == 0;
    if (!rounds_.contains(round)) return;
    rounds_[round].state = RoundState::kSealed;
    if (is_deleted) rounds_.erase(round);
    RoundSnapshot snapshot;
    snapshot.tenant = kTenant;
    snapshot.name = round;
    snapshot.state = is_deleted ? RoundState::kRetired : RoundState::kSealed;
    tasks_->OnRoundState(snapshot);
  }

  // Names and numbers of any kind.
  void Ask(FuzzInput& input) {
    const std::string name(input.Bytes(input.Below(40)));
    CheckError(tasks_->Get(kTenant, TakeViewer(input), name).status());
    CheckError(tasks_->GetGroup(kTenant, name).status());
    ListTasksArgs args{.group = input.Below(2) == 0 ? name : ""};
    args.page_token = std::string(input.Bytes(input.Below(40)));
    args.page_size = 1 + input.Below(4);
    const auto page = tasks_->List(kTenant, TakeViewer(input), args);
    CheckError(page.status());
    if (page.ok()) Require(page->tasks.size() <= args.page_size, "a page is too long");
  }

  bool IsCounted(const TaskSnapshot& task) const {
    return updates_.Find(task.round, task.contributor).has_value();
  }

  // The groups and tasks as callers see them, against what is known.
  void Compare() {
    tasks_->Tick();  // the call that learns of a deleted round still lists its tasks
    const auto page = tasks_->List(kTenant, {}, {.page_size = 1000});
    Require(page.ok() && page->next_page_token.empty(), "tasks cannot be listed");
    std::map<std::string, std::map<TaskState, uint64_t>> states;
    std::set<std::string> names;
    for (const TaskSnapshot& task : page->tasks) {
      Require(names.insert(task.name).second, "a task is listed twice");
      ++states[task.name.substr(0, task.name.find("/tasks/"))][task.state];
      CompareTask(task);
    }
    std::erase_if(known_, [&](const auto& known) { return !names.contains(known.first); });
    uint64_t tasks = 0;
    for (auto& [name, of_group] : states) {
      const auto group = tasks_->GetGroup(kTenant, name);
      Require(group.ok(), "a group of listed tasks is unknown");
      const bool equal = group->available == of_group[TaskState::kAvailable] &&
                         group->leased == of_group[TaskState::kLeased] &&
                         group->completed == of_group[TaskState::kCompleted] &&
                         group->failed == of_group[TaskState::kFailed] &&
                         group->cancelled == of_group[TaskState::kCancelled];
      Require(equal, "the counts of a group are not those of its tasks' states");
      const uint64_t sum =
          group->available + group->leased + group->completed + group->failed + group->cancelled;
      Require(sum == group->tasks, "a task without a state");
      tasks += sum;
    }
    const TaskStats stats = tasks_->Stats();
    Require(stats.groups == states.size(), "the number of groups is wrong");
    Require(stats.available + stats.leased + stats.finished == tasks,
            "the number of tasks is wrong");
    Require(tasks <= tasks_->limits().tasks_max, "more tasks than the limit");
  }

  void CompareTask(const TaskSnapshot& task) {
    Known& known = known_[task.name];
    Require(task.lease.has_value() == (task.state == TaskState::kLeased),
            "a lease without a state");
    Require(task.attempts <= task.attempts_max && task.attempts <= task.leases, "wrong attempts");
    if (task.lease.has_value()) {
      Require(task.lease->time_left.count() > 0, "a lease whose time is over");
      Require(task.lease->time_left <= task.lease->duration, "a lease that is too long");
    }
    if (task.state == TaskState::kCompleted)
      Require(IsCounted(task), "completed without an update");
    if (known.final.has_value()) {
      Require(known.final->state == task.state && known.final->end == task.end,
              "a task leaves its final state");
    } else if (IsFinal(task.state)) {
      known.final = task;
    }
  }

  CountedUpdates updates_;
  RowsInMemory rows_;
  std::map<std::string, RoundOfTasks> rounds_;
  std::chrono::system_clock::time_point wall_{std::chrono::hours(24 * 365 * 50)};
  std::chrono::steady_clock::time_point steady_{std::chrono::hours(1)};
  uint64_t random_ = 0;
  std::unique_ptr<Tasks> tasks_;

  std::map<std::string, Known> known_;
  std::set<uint64_t> tokens_;         // handed out
  std::vector<TaskLeaseKey> leases_;  // in the order in which they were handed out
};

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg::fuzz;
  FuzzInput input(data, size);
  World world;
  for (size_t step = 0; step < kStepsMax && input.left() > 0; ++step) world.Step(input);
  return 0;
}
