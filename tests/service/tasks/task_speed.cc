// Measures the task service on a real store, without an engine and a network (task_bench.h): no
// test. The numbers of docs/tasks.md are from here.
//
//   task_speed FOLDER [TASKS]      FOLDER is empty; 1,000,000 tasks in groups of 100,000
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/service/tasks/task_bench.h"

namespace sparseagg {
namespace {

using Clock = std::chrono::steady_clock;

void Measure(const std::string& what, int times, const auto& work) {
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) work(i);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::cout << what << ": " << seconds / times * 1e3 << " ms" << std::endl;
}

uint64_t MegabytesOfMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) >> 10;
}

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << "\n";
  std::exit(1);
}

void CreateAll(testing::TaskBench& bench, int tasks) {
  constexpr int kGroup = 100'000;
  for (int group = 0; group * kGroup < tasks; ++group) {
    Require(bench.Create(absl::StrCat("g", group), std::min(kGroup, tasks - group * kGroup)));
  }
}

// All pages of a filter.
void ListAll(testing::TaskBench& bench, ListTasksArgs args) {
  do {
    args.page_token = bench.tasks().List("default", {}, args).value().next_page_token;
  } while (!args.page_token.empty());
}

void Run(const std::string& folder, int tasks) {
  testing::TaskBench bench(folder);
  bench.limits.tasks_max = 10'000'000;
  Require(bench.Start());
  bench.OpenRound("rounds/r", Durability::kDurable);
  Measure("create all", 1, [&](int) { CreateAll(bench, tasks); });
  Measure("a poll of another pool", 1000, [&](int) {
    bench.tasks().Acquire("default", {.worker = "w", .pools = {"other"}}).value();
  });
  Measure("an acquisition of 100 tasks", 100, [&](int i) {
    bench.Acquire(absl::StrCat("worker-", i), 100, absl::StrCat("request-", i)).value();
  });
  Measure("one page of 50 tasks", 100, [&](int) { bench.tasks().List("default", {}, {}).value(); });
  Measure("the first page of COMPLETED (none)", 10, [&](int) {
    bench.tasks().List("default", {}, {.state = TaskState::kCompleted}).value();
  });
  Measure("the first page of a worker without tasks", 10,
          [&](int) { bench.tasks().List("default", {.worker = "nobody"}, {}).value(); });
  Measure("all pages of a worker without tasks", 1, [&](int) {
    TaskPage page;
    ListTasksArgs args;
    do {
      page = bench.tasks().List("default", {.worker = "nobody"}, args).value();
      args.page_token = page.next_page_token;
    } while (!args.page_token.empty());
  });
  Measure("all pages of LEASED (10,000)", 1,
          [&](int) { ListAll(bench, {.state = TaskState::kLeased, .page_size = 1000}); });
  Measure("a start", 1, [&](int) { Require(bench.Start()); });
  Measure("sealing the round", 1, [&](int) {
    bench.EndRound("rounds/r", RoundState::kSealed);
    bench.tasks().Tick();
  });
  Measure("a start after it", 1, [&](int) { Require(bench.Start()); });
  Measure("deleting the round", 1, [&](int) {
    bench.EndRound("rounds/r", RoundState::kRetired);
    bench.tasks().Tick();
  });
  std::cout << "memory: " << MegabytesOfMemory() << " MB\n";
}

}  // namespace
}  // namespace sparseagg

int main(int argc, char** argv) {
  if (argc < 2 || !std::filesystem::is_directory(argv[1])) {
    std::cerr << "task_speed FOLDER [TASKS]\n";
    return 1;
  }
  sparseagg::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 1'000'000);
  return 0;
}
