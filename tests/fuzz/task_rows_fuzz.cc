// What a store has of tasks, with any bytes in it: the server starts, names the groups that cannot
// be read and forgets them, has no more tasks than its limits allow, and goes on.
//
//   input := u8 number of rows, row*, u8 number of steps
//   row := u8 kind (clock, group, task, any), u8 damaged if 255, u8 bytes of the key or number of
//          the group, [key | u8 number of the task], u16 bytes of the value, value
#include <algorithm>
#include <chrono>
#include <set>

#include "proto/limits.h"
#include "service/engine/names.h"
#include "service/tasks/stored_tasks.h"
#include "service/tasks/tasks.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/task_stores.h"

namespace sparseagg::fuzz {
namespace {

using std::chrono::milliseconds;

constexpr size_t kRowsMax = 12;
// Each may have 100,000 tasks.
constexpr size_t kGroupsMax = 3;

std::string GroupName(size_t number) { return "taskgroups/g" + std::to_string(number % 4); }

std::string TakeKey(FuzzInput& input, size_t kind) {
  switch (kind) {
    case 0:
      return std::string(kClockRow);
    case 1:
      return GroupRowKey(GroupName(input.Below(4)));
    case 2: {
      const std::string group = GroupName(input.Below(4));
      return TaskRowKey(group, input.Take<uint8_t>());
    }
    default:
      return std::string(input.Bytes(input.Below(60)));
  }
}

void TakeRows(FuzzInput& input, RowsInMemory& store) {
  const size_t number = input.Below(kRowsMax + 1);
  size_t groups = 0;
  for (size_t i = 0; i < number; ++i) {
    const size_t kind = input.Below(4);
    const bool is_damaged = input.Take<uint8_t>() == 255;
    const std::string key = TakeKey(input, kind);
    const std::string value(input.Bytes(input.Take<uint16_t>()));
    if (ParseTaskRowKey(key).kind == TaskRowName::Kind::kGroup) {
      if (++groups > kGroupsMax) continue;
    }
    store.rows[key] = is_damaged ? std::nullopt : std::optional(value);
  }
}

// `orders` are those of the groups before: no writer gives two the same.
bool IsSound(std::string_view name, const std::optional<std::string>& row,
             std::set<uint64_t>& orders) {
  if (!row.has_value()) return false;
  const auto group = ReadTaskGroup(name, *row);
  return group.ok() && TenantOf(group->round) == TenantOf(name) &&
         orders.insert(group->order).second;
}

// The groups that recovery has to name: those that cannot be read, and those of rows that are left.
std::vector<std::string> DamagedGroups(const RowsInMemory& store) {
  std::set<std::string> damaged;
  std::set<std::string> sound;
  std::set<uint64_t> orders;
  for (const auto& [key, value] : store.rows) {
    const TaskRowName name = ParseTaskRowKey(key);
    if (name.group.empty() && name.kind != TaskRowName::Kind::kGroup) continue;
    if (name.kind == TaskRowName::Kind::kGroup && IsSound(name.group, value, orders)) {
      sound.insert(name.group);
    } else if (name.kind == TaskRowName::Kind::kGroup) {
      damaged.insert(name.group);
    }
  }
  for (const auto& [key, value] : store.rows) {
    const TaskRowName name = ParseTaskRowKey(key);
    const bool is_of_group =
        name.kind == TaskRowName::Kind::kTask || name.kind == TaskRowName::Kind::kEnd;
    if (is_of_group && !sound.contains(name.group)) damaged.insert(name.group);
  }
  return {damaged.begin(), damaged.end()};
}

class Server {
 public:
  explicit Server(RowsInMemory& rows) : rows_(rows) {}

  std::vector<std::string> Start() {
    tasks_.reset();
    updates_.Restart();
    TaskOptions options;
    options.now = [this] { return wall_; };
    options.steady_now = [this] { return steady_; };
    options.random = [this] { return ++random_; };
    tasks_ = std::make_unique<Tasks>(std::move(options), updates_, &rows_);
    auto damaged = tasks_->Recover([](const std::string& round) -> absl::StatusOr<RoundOfTasks> {
      if (round.ends_with('x')) return absl::NotFoundError(round);
      return RoundOfTasks{.state = round.ends_with('y') ? RoundState::kSealed : RoundState::kOpen,
                          .durability = Durability::kDurable};
    });
    Require(damaged.ok(), "rows keep the server from starting");
    return damaged->damaged_groups;
  }

  // A worker and an owner use what was restored.
  void Step(FuzzInput& input) {
    switch (input.Below(5)) {
      case 0:
        steady_ += milliseconds(1) * (input.Take<uint16_t>() * 100);
        tasks_->Tick();
        break;
      case 1:
        Work(input.Below(3));
        break;
      case 2:
        tasks_->Cancel("default", {GroupName(input.Below(4))}).status().IgnoreError();
        break;
      case 3:
        Create();
        break;
      default:
        tasks_->Tick();
    }
    Compare();
  }

  // The counts are those of the states.
  void Compare() {
    const TaskStats stats = tasks_->Stats();
    Require(stats.groups <= rows_.rows.size(), "groups without rows");
    const uint64_t tasks = stats.available + stats.leased + stats.finished;
    Require(tasks <= stats.groups * kTasksPerGroupMax, "more tasks than rows allow");
    const auto page = tasks_->List("default", {}, {.page_size = 300});
    Require(page.ok(), "tasks cannot be listed");
    for (const TaskSnapshot& task : page->tasks) {
      Require((task.state == TaskState::kLeased) == task.lease.has_value(),
              "a lease without state");
    }
  }

 private:
  void Work(size_t outcome) {
    const auto acquired = tasks_->Acquire("default", {.worker = "w", .pools = {"p"}, .max = 3});
    if (!acquired.ok()) return;
    for (const TaskSnapshot& task : acquired->tasks) {
      const TaskLeaseKey lease{task.name, task.lease->token};
      if (outcome == 0) tasks_->Renew("default", {}, {&lease, 1}).status().IgnoreError();
      if (outcome == 1) {
        tasks_->Fail("default", {}, lease, {.handed_back = true}).status().IgnoreError();
      }
    }
  }
  void Create() {
    TaskGroupSpec spec;
    spec.pool = "p";
    spec.round = "rounds/r";
    spec.count = 2;
    tasks_->Create({.groups = {spec}}).status().IgnoreError();
  }

  RowsInMemory& rows_;
  CountedUpdates updates_;
  std::chrono::system_clock::time_point wall_{std::chrono::hours(24 * 365 * 50)};
  std::chrono::steady_clock::time_point steady_{std::chrono::hours(1)};
  uint64_t random_ = 0;
  std::unique_ptr<Tasks> tasks_;
};

void Run(FuzzInput& input) {
  RowsInMemory rows;
  TakeRows(input, rows);
  const std::vector<std::string> damaged = DamagedGroups(rows);
  Server server(rows);
  Require(server.Start() == damaged, "the damaged groups are not those that are named");
  for (const auto& [key, value] : rows.rows) {
    const bool is_forgotten =
        std::ranges::find(damaged, ParseTaskRowKey(key).group) != damaged.end();
    Require(ParseTaskRowKey(key).group.empty() || !is_forgotten, "a damaged group's row is left");
  }
  server.Compare();
  for (size_t i = input.Below(8); i > 0; --i) server.Step(input);
  Require(server.Start().empty(), "a start leaves what the next one cannot read");
  server.Compare();
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sparseagg::fuzz::FuzzInput input(data, size);
  sparseagg::fuzz::Run(input);
  return 0;
}
