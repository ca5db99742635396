// Measures the reductions of the CUDA back end on this machine's GPU, beside raw CUB and dense
// addition on the same data. One line of JSON for each measurement, as they come.
//
//   gpu_reduce OUTPUT.jsonl SECONDS      cases are left out when the time is over
//
// "reduce": a batch that is on the device becomes a run of exact slots there. "end_to_end": staged
// updates in page-locked memory become a result on the host, through the back end as the server
// uses it. Times are medians, by the host's clock around work that is waited for. Runs of all plans
// are held against each other: "same" is false when one differs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/device_batch.h"
#include "bench/gpu/gpu_peers.h"
#include "cuda/cost_model.h"
#include "cuda/cuda_backend.h"
#include "cuda/plan.h"
#include "cuda/probe.h"
#include "cuda/raii/pinned_buffer.h"
#include "cuda/window.h"
#include "sparse/planner.h"

namespace sparseagg::gpu {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Times {
  double median = 0;
  double least = 0;
  int runs = 0;
};

// Two runs to warm up, then until 15 runs or a second and a half are over, at least 3.
Times Measure(const std::function<void()>& f) {
  f();
  f();
  std::vector<double> seconds;
  const auto start = Clock::now();
  while (seconds.size() < 3 || (seconds.size() < 15 && SecondsSince(start) < 1.5)) {
    const auto begin = Clock::now();
    f();
    seconds.push_back(SecondsSince(begin));
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds[0], static_cast<int>(seconds.size())};
}

class Report {
 public:
  explicit Report(const char* path) : file_(std::fopen(path, "w")) {
    if (file_ == nullptr) std::exit(2);
  }
  ~Report() { std::fclose(file_); }

  // `fields` are the members of a JSON object.
  void Line(const std::string& fields) {
    std::fprintf(file_, "{%s}\n", fields.c_str());
    std::fflush(file_);
    std::printf("{%s}\n", fields.c_str());
    std::fflush(stdout);
  }

 private:
  std::FILE* file_;
};

std::string Members(const BatchCase& c) {
  return absl::StrCat("\"entries\":", c.entries, ",\"rows\":", c.rows,
                      ",\"contributors\":", c.contributors, ",\"indices\":\"", c.indices,
                      "\",\"sorted\":", c.sorted ? "true" : "false", ",\"width\":", c.width);
}
std::string Members(const Times& times) {
  return absl::StrCat("\"ms\":", times.median * 1e3, ",\"ms_least\":", times.least * 1e3,
                      ",\"runs\":", times.runs);
}

ReduceSpec SpecOf(const BatchCase& c) {
  return {.name = "t", .layout = {c.rows, c.width, ValueType::kF32}, .op = "sum"};
}

class Bench {
 public:
  Bench(Report& report, MemoryPool& pool, double seconds)
      : report_(report), queue_(pool), start_(Clock::now()), seconds_(seconds) {}

  bool TimeIsOver() const { return SecondsSince(start_) > seconds_; }

  // Also the yardsticks that shares are of.
  void Rates() {
    constexpr size_t kBytes = size_t{1} << 30;
    DeviceArray<std::byte> from(queue_, kBytes);
    DeviceArray<std::byte> to(queue_, kBytes);
    PinnedBuffer pinned(kBytes / 4);
    const Times copy = Measure([&] {
      CopyBytes(queue_, from.data(), to.data(), kBytes);
      queue_.Synchronize();
    });
    const Times up = Measure([&] {
      queue_.Upload(to.data(), pinned.data(), pinned.bytes());
      queue_.Synchronize();
    });
    const Times down = Measure([&] {
      queue_.Download(pinned.data(), to.data(), pinned.bytes());
      queue_.Synchronize();
    });
    copy_rate_ = 2.0 * kBytes / copy.median;
    bus_rate_ = static_cast<double>(pinned.bytes()) / up.median;
    report_.Line(absl::StrCat("\"kind\":\"rates\",\"copy_gb_s\":", copy_rate_ / 1e9,
                              ",\"to_device_gb_s\":", bus_rate_ / 1e9, ",\"to_host_gb_s\":",
                              static_cast<double>(pinned.bytes()) / down.median / 1e9));
  }

  void Reduce(const BatchCase& c) {
    const DeviceBatch batch = MakeBatch(queue_, c, 1);
    SlotRule rule = RuleOf(SpecOf(c));
    rule.lsb = -90;
    uint64_t first_digest = 0;
    for (const DevicePlanRow& row : DevicePlans()) {
      const double slots = static_cast<double>(c.rows) * c.width;
      if (row.reduce == nullptr && slots > 1.5e9) continue;
      if (row.name == "thrust_sort_reduce" && c.entries > 200'000'000) continue;
      Attempt(absl::StrCat("\"plan\":\"", std::string(row.name), "\""), c, [&] {
        const auto reduce = [&] {
          const std::unique_ptr<DevicePlan> plan = MakeDevicePlan(row.name, rule, c.rows);
          plan->Fold(queue_, batch.view);
          return std::pair{plan->State(queue_).size, DigestOf(queue_, rule, plan->State(queue_))};
        };
        const auto [size, digest] = reduce();
        if (first_digest == 0) first_digest = digest;
        const Times times = Measure([&] {
          const std::unique_ptr<DevicePlan> plan = MakeDevicePlan(row.name, rule, c.rows);
          plan->Fold(queue_, batch.view);
          plan->State(queue_);
          queue_.Synchronize();
        });
        const Workload workload{c.contributors, c.entries / c.contributors,
                                c.sorted ? EntryOrder::kCanonical : EntryOrder::kUnsorted, true};
        // What must be read and written: entries and results.
        const double least = static_cast<double>(c.entries) * (8 + 4 * c.width) +
                             static_cast<double>(size) * (8 + 4 * c.width);
        return absl::StrCat(Members(times), ",\"rows_out\":", size,
                            ",\"same\":", digest == first_digest ? "true" : "false",
                            ",\"share_of_copy\":", least / times.median / copy_rate_,
                            ",\"model_plan_ms\":",
                            CudaCost({.bus_bytes = 1e30}, row.name, SpecOf(c), workload).seconds /
                                (1 + 1.0 / 8) * 1e3);
      });
    }
    if (c.width == 1 && c.entries <= 500'000'000) {
      Attempt("\"plan\":\"peer: CUB SortPairs 64 bits + ReduceByKey f32\"", c,
              [&] { return Members(Measure([&] { SortReduceByCub(queue_, batch.view); })); });
    }
  }

  // Dense updates of the same contributors, for the density at which sparse ones stop to pay.
  void DenseAddition(uint64_t rows, uint32_t contributors) {
    DeviceArray<float> updates(queue_, rows * contributors);
    DeviceArray<float> sums(queue_, rows);
    queue_.Fill(updates.data(), 1, updates.size());
    const Times times = Measure([&] {
      AddDense(queue_, updates.data(), rows, contributors, sums.data());
      queue_.Synchronize();
    });
    report_.Line(absl::StrCat("\"kind\":\"dense_addition\",\"rows\":", rows,
                              ",\"contributors\":", contributors, ",", Members(times)));
  }

  void EndToEnd(Backend& backend, const BatchCase& c) {
    const DeviceBatch batch = MakeBatch(queue_, c, 2);
    const ReduceSpec spec = SpecOf(c);
    const Workload workload{c.contributors, batch.view.nnz / c.contributors,
                            c.sorted ? EntryOrder::kCanonical : EntryOrder::kUnsorted, true};
    const auto plan = MakePlan(spec, workload, backend.info());
    Attempt(absl::StrCat("\"end_to_end\":true,\"plan\":\"", plan->name, "\""), c, [&] {
      std::vector<double> seconds;
      for (int run = 0; run < 4; ++run) {
        const auto aggregator = *backend.NewAggregator(*plan);
        std::vector<StagedUpdate> staged;
        for (const UpdateRef& ref : batch.refs) {
          staged.push_back(aggregator->Stage(ref.nnz).value());
          staged.back().order = ref.order;
          queue_.Download(reinterpret_cast<std::byte*>(staged.back().entries.indices),
                          reinterpret_cast<const std::byte*>(ref.rows), staged.back().bytes);
        }
        queue_.Synchronize();
        const auto start = Clock::now();
        for (size_t u = 0; u < staged.size(); ++u) {
          if (!aggregator->Accumulate(std::move(staged[u]), batch.refs[u].weight).ok())
            std::abort();
        }
        if (!std::move(*aggregator).Report().ok()) std::abort();
        seconds.push_back(SecondsSince(start));
      }
      std::sort(seconds.begin(), seconds.end());
      const double bus = static_cast<double>(batch.memory.bytes()) / bus_rate_;
      return absl::StrCat("\"ms\":", seconds[1] * 1e3, ",\"bus_ms\":", bus * 1e3,
                          ",\"times_of_bus\":", seconds[1] / bus);
    });
  }

 private:
  void Attempt(const std::string& what, const BatchCase& c,
               const std::function<std::string()>& measure) {
    std::string result;
    try {
      result = measure();
    } catch (const std::exception& error) {
      result = absl::StrCat("\"error\":\"", error.what(), "\"");
    }
    report_.Line(absl::StrCat("\"kind\":\"reduce\",", what, ",", Members(c), ",", result));
  }

  Report& report_;
  Queue queue_;
  const Clock::time_point start_;
  const double seconds_;
  double copy_rate_ = 1;
  double bus_rate_ = 1;
};

std::vector<BatchCase> Cases() {
  constexpr uint64_t kMillion = 1'000'000;
  std::vector<BatchCase> cases;
  for (const uint64_t rows : {1000 * kMillion, 100 * kMillion, kMillion, kMillion * kMillion}) {
    cases.push_back({100 * kMillion, rows, 100, "uniform", true});
    cases.push_back({100 * kMillion, rows, 100, "uniform", false});
  }
  for (const uint32_t width : {64u, 16u, 128u, 512u}) {
    cases.push_back({400 * kMillion / width, 10 * kMillion, 64, "uniform", false, width});
  }
  cases.push_back({100 * kMillion, 1000 * kMillion, 8, "uniform", true});
  cases.push_back({100 * kMillion, 1000 * kMillion, 1000, "uniform", true});
  cases.push_back({100 * kMillion, 1000 * kMillion, 100, "overlap", true});
  cases.push_back({100 * kMillion, 1000 * kMillion, 100, "zipf", false});
  for (const uint64_t rows : {kMillion, 1000 * kMillion}) {
    cases.push_back({kMillion, rows, 64, "uniform", true});
    cases.push_back({kMillion, rows, 64, "uniform", false});
  }
  cases.push_back({500 * kMillion, 1000 * kMillion, 100, "uniform", true});
  cases.push_back({500 * kMillion, 1000 * kMillion, 100, "uniform", false});
  return cases;
}

int Main(const char* path, double seconds) {
  const auto gpus = ProbeGpus();
  if (!gpus.ok()) {
    std::fprintf(stderr, "%s\n", std::string(gpus.status().message()).c_str());
    return 3;
  }
  Report report(path);
  report.Line(absl::StrCat("\"kind\":\"device\",\"name\":\"", (*gpus)[0].name,
                           "\",\"memory_bytes\":", (*gpus)[0].memory_bytes));
  MemoryPool pool(0, (*gpus)[0].memory_bytes / 2);
  Bench bench(report, pool, seconds);
  bench.Rates();
  std::vector<BatchCase> cases = Cases();
  // What the server does, between the first cases, should time run out.
  const auto backend = MakeCudaBackend({.memory_bytes = (*gpus)[0].memory_bytes / 3});
  for (size_t i = 0; i < cases.size() && !bench.TimeIsOver(); ++i) {
    bench.Reduce(cases[i]);
    if (i < 2 && backend.ok()) bench.EndToEnd(**backend, cases[i]);
  }
  constexpr uint64_t kDenseRows = 10'000'000;
  if (!bench.TimeIsOver()) bench.DenseAddition(kDenseRows, 8);
  for (const double density : {1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.25, 0.5, 1.0}) {
    if (bench.TimeIsOver()) break;
    bench.Reduce({static_cast<uint64_t>(density * kDenseRows) * 8, kDenseRows, 8, "uniform", true});
  }
  return 0;
}

}  // namespace
}  // namespace sparseagg::gpu

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gpu_reduce OUTPUT.jsonl SECONDS\n");
    return 2;
  }
  return sparseagg::gpu::Main(argv[1], std::atof(argv[2]));
}
