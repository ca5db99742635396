// Measures the reductions of the CUDA back end on this machine's GPU, beside raw CUB and dense
// addition on the same data. One line of JSON for each measurement, as they come.
//
//   gpu_reduce CASES OUTPUT.jsonl SECONDS [FIRST]
//
// Cases (grid.py) before number FIRST, from 0, are left out, and lines are appended then; so are
// those that come when the time is over. A line "begin" stands before each case: who watches this
// program knows which case it hangs in. An error after which the device is of no more use ends the
// program with code 4.
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
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bench/gpu/case_list.h"
#include "bench/gpu/device_batch.h"
#include "bench/gpu/gpu_peers.h"
#include "cuda/calibration.h"
#include "cuda/cost_model.h"
#include "cuda/cuda_backend.h"
#include "cuda/plan.h"
#include "cuda/probe.h"
#include "cuda/raii/pinned_buffer.h"
#include "cuda/window.h"
#include "sparse/planner.h"

namespace sparseagg::gpu {
namespace {

using Steady = std::chrono::steady_clock;

double SecondsSince(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

struct Times {
  double median = 0;
  double least = 0;
  int runs = 0;
};

// Two runs to warm up, then until 15 runs or 0.4 seconds are over, at least 3.
Times Measure(const std::function<void()>& f) {
  f();
  f();
  std::vector<double> seconds;
  const auto start = Steady::now();
  while (seconds.size() < 3 || (seconds.size() < 15 && SecondsSince(start) < 0.4)) {
    const auto begin = Steady::now();
    f();
    seconds.push_back(SecondsSince(begin));
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds[0], static_cast<int>(seconds.size())};
}

class Report {
 public:
  Report(const char* path, bool append) : file_(std::fopen(path, append ? "a" : "w")) {
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

std::string Members(const Times& times) {
  return absl::StrCat("\"ms\":", times.median * 1e3, ",\"ms_least\":", times.least * 1e3,
                      ",\"runs\":", times.runs);
}

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

constexpr uint64_t kDenseBytesMax = uint64_t{2} << 30;

class Bench {
 public:
  Bench(Report& report, MemoryPool& pool, const GpuInfo& gpu)
      : report_(report), gpu_(gpu), queue_(pool) {}

  // Also the yardsticks that shares are of.
  void Rates() {
    const auto start = Steady::now();
    const auto measured = MeasureRates(queue_, gpu_, &Steady::now);
    rates_ = measured.ok() ? *measured : UsualRates(gpu_);
    report_.Line(
        absl::StrCat("\"kind\":\"calibration\",\"seconds\":", SecondsSince(start),
                     ",\"ok\":", measured.ok() ? "true" : "false", ",\"message\":\"",
                     measured.ok() ? Describe(rates_) : std::string(measured.status().message()),
                     "\",\"copy_gb_s\":", rates_.copy_bytes / 1e9, ",\"to_device_gb_s\":",
                     rates_.bus_bytes / 1e9, ",\"to_host_gb_s\":", rates_.bus_back_bytes / 1e9));
  }

  void Run(const BatchCase& c) {
    Attempt("\"plan\":\"making the batch\"", c, [&] {
      const DeviceBatch batch = MakeBatch(queue_, c, 1);
      Reduce(c, batch);
      if (c.end_to_end) EndToEnd(c, batch);
      return std::string();
    });
    const bool dense_fits =
        c.width == 1 && c.rows * c.contributors * sizeof(float) <= kDenseBytesMax;
    if (dense_fits) Attempt("\"plan\":\"peer: dense addition\"", c, [&] { return AddDense(c); });
  }

 private:
  void Reduce(const BatchCase& c, const DeviceBatch& batch) {
    SlotRule rule = RuleOf(SpecOf(c));
    rule.lsb = -90;
    uint64_t first_digest = 0;
    for (const DevicePlanRow& row : DevicePlans()) {
      const bool dense = row.reduce == nullptr;
      if (dense && c.rows * c.width > kDenseSlotsMax) continue;
      Attempt(absl::StrCat("\"plan\":\"", std::string(row.name), "\""), c, [&] {
        uint64_t size = 0;
        uint64_t digest = 0;
        const auto reduce = [&](bool look) {
          const std::unique_ptr<DevicePlan> plan = MakeDevicePlan(row.name, rule, c.rows);
          plan->Fold(queue_, batch.view);
          plan->WithState(queue_, [&](const sparseagg::gpu::Run& run) {
            queue_.Synchronize();
            if (!look) return;
            size = run.size;
            digest = DigestOf(queue_, rule, run);
          });
        };
        reduce(true);
        if (first_digest == 0) first_digest = digest;
        const Times times = Measure([&] { reduce(false); });
        // What must be read and written: entries and results.
        const double least = static_cast<double>(c.entries + size) * (8 + 4 * c.width);
        return absl::StrCat(
            Members(times), ",\"rows_out\":", size,
            ",\"same\":", digest == first_digest ? "true" : "false",
            ",\"share_of_copy\":", least / times.median / rates_.copy_bytes,
            ",\"calibrated_ms\":", ReduceSeconds(rates_, row.name, SpecOf(c), WorkloadOf(c)) * 1e3);
      });
    }
    if (c.width != 1) return;
    Attempt("\"plan\":\"peer: CUB SortPairs 64 bits + ReduceByKey f32\"", c,
            [&] { return Members(Measure([&] { SortReduceByCub(queue_, batch.view); })); });
  }

  // Dense updates of as many contributors, for the density at which sparse ones stop to pay.
  std::string AddDense(const BatchCase& c) {
    DeviceArray<float> updates(queue_, c.rows * c.contributors);
    DeviceArray<float> sums(queue_, c.rows);
    queue_.Fill(updates.data(), 1, updates.size());
    const auto add = [&] {
      gpu::AddDense(queue_, updates.data(), c.rows, c.contributors, sums.data());
    };
    std::string result = Members(Measure([&] {
      add();
      queue_.Synchronize();
    }));
    if (!c.end_to_end) return result;
    const PinnedBuffer host(updates.bytes());
    const Times times = Measure([&] {
      queue_.Upload(reinterpret_cast<std::byte*>(updates.data()), host.data(), host.bytes());
      add();
      queue_.Download(reinterpret_cast<float*>(host.data()), sums.data(), sums.size());
      queue_.Synchronize();
    });
    return absl::StrCat(result, ",\"end_to_end_ms\":", times.median * 1e3);
  }

  void EndToEnd(const BatchCase& c, const DeviceBatch& batch) {
    Attempt("\"end_to_end\":true,\"plan\":\"server's\"", c, [&] {
      if (backend_ == nullptr) {
        auto backend = MakeCudaBackend({.memory_bytes = gpu_.memory_bytes / 3});
        Check(backend.status());
        backend_ = *std::move(backend);
      }
      const auto plan = MakePlan(SpecOf(c), WorkloadOf(c), backend_->info());
      Check(plan.status());
      std::vector<double> seconds;
      uint64_t rows_out = 0;
      for (int run = 0; run < 4; ++run) {
        seconds.push_back(OneRound(*plan, batch, rows_out));
      }
      std::sort(seconds.begin(), seconds.end());
      const double row_bytes = 8 + 4 * c.width;
      const double in = static_cast<double>(c.entries) * row_bytes / rates_.bus_bytes;
      const double out = static_cast<double>(rows_out) * row_bytes / rates_.bus_back_bytes;
      return absl::StrCat("\"chosen\":\"", plan->name, "\",\"ms\":", seconds[1] * 1e3,
                          ",\"bus_ms\":", in * 1e3, ",\"bus_back_ms\":", out * 1e3,
                          ",\"times_of_bus\":", seconds[1] / (in + out));
    });
  }

  // Seconds from the first update that is handed over to the result.
  double OneRound(const Plan& plan, const DeviceBatch& batch, uint64_t& rows_out) {
    auto aggregator = backend_->NewAggregator(plan);
    Check(aggregator.status());
    std::vector<StagedUpdate> staged;
    for (const UpdateRef& ref : batch.refs) {
      auto update = (*aggregator)->Stage(ref.nnz);
      Check(update.status());
      staged.push_back(*std::move(update));
      staged.back().order = ref.order;
      queue_.Download(reinterpret_cast<std::byte*>(staged.back().entries.indices),
                      reinterpret_cast<const std::byte*>(ref.rows), staged.back().bytes);
    }
    queue_.Synchronize();
    const auto start = Steady::now();
    for (size_t u = 0; u < staged.size(); ++u) {
      Check((*aggregator)->Accumulate(std::move(staged[u]), batch.refs[u].weight));
    }
    const auto result = std::move(**aggregator).Report();
    const double seconds = SecondsSince(start);
    Check(result.status());
    rows_out = result->tensor.indices.size();
    return seconds;
  }

  // Writes what `measure` gives, or why it gave nothing. Ends the program when the device is lost.
  void Attempt(const std::string& what, const BatchCase& c,
               const std::function<std::string()>& measure) {
    std::string result;
    bool lost = false;
    try {
      result = measure();
      if (result.empty()) return;
    } catch (const CudaError& error) {
      lost = !error.out_of_memory();
      result = absl::StrCat("\"error\":\"", error.what(), "\"");
    } catch (const std::exception& error) {
      result = absl::StrCat("\"error\":\"", absl::StrReplaceAll(error.what(), {{"\"", "'"}}), "\"");
    }
    report_.Line(absl::StrCat("\"kind\":\"reduce\",", what, ",", Members(c), ",", result));
    if (lost) std::_Exit(kExitDeviceLost);
  }

  static constexpr uint64_t kDenseSlotsMax = 1'500'000'000;
  static constexpr int kExitDeviceLost = 4;

  Report& report_;
  const GpuInfo gpu_;
  Queue queue_;
  DeviceRates rates_;
  std::unique_ptr<Backend> backend_;  // made when first needed
};

int Main(const char* cases_path, const char* path, double seconds, size_t first) {
  const auto start = Steady::now();
  const std::vector<BatchCase> cases = ReadCases(cases_path);
  const auto gpus = ProbeGpus();
  if (!gpus.ok()) {
    std::fprintf(stderr, "%s\n", std::string(gpus.status().message()).c_str());
    return 3;
  }
  const GpuInfo& gpu = (*gpus)[0];
  Report report(path, first > 0);
  report.Line(absl::StrCat("\"kind\":\"device\",\"name\":\"", gpu.name, "\",\"memory_bytes\":",
                           gpu.memory_bytes, ",\"multiprocessors\":", gpu.multiprocessors));
  MemoryPool pool(0, gpu.memory_bytes / 2);
  Bench bench(report, pool, gpu);
  bench.Rates();
  for (size_t i = first; i < cases.size(); ++i) {
    if (SecondsSince(start) > seconds) {
      report.Line(absl::StrCat("\"kind\":\"time_over\",\"case\":", i));
      return 0;
    }
    report.Line(absl::StrCat("\"kind\":\"begin\",\"case\":", i));
    bench.Run(cases[i]);
  }
  return 0;
}

}  // namespace
}  // namespace sparseagg::gpu

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: gpu_reduce CASES OUTPUT.jsonl SECONDS [FIRST]\n");
    return 2;
  }
  return sparseagg::gpu::Main(argv[1], argv[2], std::atof(argv[3]),
                              argc == 5 ? std::strtoull(argv[4], nullptr, 10) : 0);
}
