// Measures the reductions of the CUDA back end on this machine's GPU, beside raw CUB and dense
// addition on the same data. One line of JSON for each measurement, as they come.
//
//   gpu_reduce STEPS OUTPUT.jsonl SECONDS [once]
//
// A step (grid.py writes them) names a case and what reduces it: a plan, a peer, "end_to_end" or
// "reference". Steps are done in their order until the time is over; lines are appended. A line
// "begin" stands before each step: who watches this program knows where it hangs or dies, and
// starts it again with the steps behind. An error after which the device is of no more use ends the
// program with code 4. "once" does each step once and measures nothing: for profilers and
// compute-sanitizer, and to see whether a plan works at all.
//
// A plan: a batch that is on the device becomes a run of exact slots there, and what the window
// does not hold is put aside, as when the server folds a batch. "row_reduce_rounded": it becomes
// the results, as when it is the whole round. "end_to_end": staged updates in page-locked memory
// become a result on the host, through the back end as the server uses it. Times are medians, by
// the host's clock around work that is waited for. Runs of a case with equal digests are equal;
// "reference" is the digest that the CPU says.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "bench/gpu/case_list.h"
#include "bench/gpu/device_batch.h"
#include "bench/gpu/gpu_peers.h"
#include "bench/gpu/reference_digest.h"
#include "cuda/cost_model.h"
#include "cuda/cuda_backend.h"
#include "cuda/device/calibration.h"
#include "cuda/device/probe.h"
#include "cuda/kernels/finalize.h"
#include "cuda/kernels/rows/row_reduce.h"
#include "cuda/kernels/side.h"
#include "cuda/plan.h"
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
  explicit Report(const char* path) : file_(std::fopen(path, "a")) {
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

// A step in which the plan "row_reduce" makes results of a batch that is the whole round.
constexpr std::string_view kRounded = "row_reduce_rounded";
// The window of every case: it holds all products of MakeBatch().
constexpr int32_t kLsb = -90;
constexpr uint64_t kDenseBytesMax = uint64_t{2} << 30;  // of a peer's dense updates
constexpr uint64_t kDenseSlotsMax = 1'500'000'000;      // of a dense plan

class Bench {
 public:
  Bench(Report& report, MemoryPool& pool, const GpuInfo& gpu, bool once)
      : report_(report), gpu_(gpu), once_(once), queue_(pool) {}

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

  // Writes what the step gives, or why it gives nothing. Ends the program when the device is lost.
  void Run(const Step& step) {
    std::string result;
    bool lost = false;
    try {
      result = Measured(step);
    } catch (const CudaError& error) {
      lost = !error.out_of_memory();
      result = ErrorOf(error);
    } catch (const std::exception& error) {
      result = ErrorOf(error);
    }
    report_.Line(absl::StrCat("\"kind\":\"reduce\",\"plan\":\"", step.plan, "\",",
                              Members(step.batch_case), ",", result));
    if (lost) std::_Exit(kExitDeviceLost);
  }

 private:
  // Members of a JSON object.
  static std::string ErrorOf(const std::exception& error) {
    return absl::StrCat("\"error\":\"", absl::StrReplaceAll(error.what(), {{"\"", "'"}}), "\"");
  }

  std::string Measured(const Step& step) {
    const BatchCase& c = step.batch_case;
    if (step.plan == "dense_addition") return AddDense(c, /*end_to_end=*/false);
    if (step.plan == "dense_addition_end_to_end") return AddDense(c, /*end_to_end=*/true);
    const DeviceBatch& batch = BatchOf(c);
    if (step.plan == "end_to_end") return EndToEnd(c, batch);
    if (step.plan == "cub_sort_reduce") return ReduceByCub(c, batch);
    if (step.plan == "reference") return Reference(c, batch);
    if (step.plan == kRounded) return Round(c, batch);
    for (const DevicePlan& row : DevicePlans()) {
      if (row.name == step.plan) return Reduce(row, c, batch);
    }
    throw std::runtime_error("no such plan here");
  }

  // Steps of one case that follow each other share its batch.
  const DeviceBatch& BatchOf(const BatchCase& c) {
    if (!batch_.has_value() || !(batch_case_ == c)) {
      batch_.reset();
      batch_ = MakeBatch(queue_, c, 1);
      batch_case_ = c;
    }
    return *batch_;
  }

  // Members of a JSON object. Once and for a profiler, or measured.
  std::string TimesOf(const std::function<void()>& f) {
    if (!once_) return Members(Measure(f));
    StartProfile();
    f();
    queue_.Synchronize();
    StopProfile();
    return "\"runs\":1";
  }

  std::string Reduce(const DevicePlan& row, const BatchCase& c, const DeviceBatch& batch) {
    if (row.reduce == nullptr && c.rows * c.width > kDenseSlotsMax) {
      throw std::runtime_error("left out: a slot for every row takes too much memory");
    }
    SlotRule rule = RuleOf(SpecOf(c));
    rule.lsb = kLsb;
    uint64_t size = 0;
    uint64_t digest = 0;
    uint64_t aside = 0;
    const auto reduce = [&](bool look) {
      const SideList side = ListSide(queue_, batch.view, rule);
      const std::unique_ptr<DeviceReducer> plan = MakeDeviceReducer(row.name, rule, c.rows);
      plan->Fold(queue_, batch.view);
      plan->WithState(queue_, [&](const sparseagg::gpu::SlotRun& run) {
        queue_.Synchronize();
        if (!look) return;
        size = run.size;
        digest = DigestOf(queue_, rule, run);
        aside = queue_.Read(side.count.data());
      });
    };
    if (once_) {
      const std::string times = TimesOf([&] { reduce(false); });
      reduce(true);
      return absl::StrCat(times, Found(size, digest, aside));
    }
    reduce(true);
    const Times times = Measure([&] { reduce(false); });
    return absl::StrCat(Members(times), Found(size, digest, aside),
                        ",\"share_of_copy\":", ShareOfCopy(c, size, times), ",\"calibrated_ms\":",
                        ReduceSeconds(rates_, row.name, SpecOf(c), WorkloadOf(c)) * 1e3);
  }

  // From entries to results, in one go; held against the results of its slots.
  std::string Round(const BatchCase& c, const DeviceBatch& batch) {
    const DevicePlan* row = FindDevicePlan("row_reduce");
    const ReduceSpec spec = SpecOf(c);
    SlotRule rule = RuleOf(spec);
    rule.lsb = kLsb;
    const Finalization finalization{spec.op, rule, 1, c.width};
    if (!row->rounder.can(finalization)) throw std::runtime_error("left out: not for such rows");
    RoundedRows rounded = row->rounder.round(queue_, batch.view, finalization);
    const std::unique_ptr<DeviceReducer> plan = MakeDeviceReducer(row->name, rule, c.rows);
    plan->Fold(queue_, batch.view);
    uint64_t size = 0;
    uint64_t different = 0;
    plan->WithState(queue_, [&](const sparseagg::gpu::SlotRun& run) {
      size = run.size;
      const uint64_t bytes = size * c.width * sizeof(float);
      DeviceArray<std::byte> values(queue_, bytes);
      DeviceArray<FinalizeOutcome> outcome(queue_, 1);
      queue_.Fill(outcome.data(), 0, 1);
      FinalizeRun(queue_, finalization, run, {}, values.data(), outcome.data());
      different = Differences(queue_, values.data(), rounded.values.data(), bytes);
    });
    plan->Clear();
    rounded = {};
    const auto round = [&] {
      rounded = row->rounder.round(queue_, batch.view, finalization);
      queue_.Synchronize();
      rounded = {};
    };
    const std::string found =
        absl::StrCat(",\"rows_out\":", size, ",\"bytes_that_differ\":", different,
                     ",\"same\":", different == 0 ? "true" : "false");
    if (once_) return absl::StrCat(TimesOf(round), found);
    const Times times = Measure(round);
    return absl::StrCat(Members(times), found, ",\"share_of_copy\":", ShareOfCopy(c, size, times));
  }

  // What must be read and written, entries and results, at the rate of a copy.
  double ShareOfCopy(const BatchCase& c, uint64_t rows_out, const Times& times) const {
    const double least = static_cast<double>(c.entries + rows_out) * (8 + 4 * c.width);
    return least / times.median / rates_.copy_bytes;
  }

  static std::string Found(uint64_t size, uint64_t digest, uint64_t aside) {
    return absl::StrCat(",\"rows_out\":", size, ",\"digest\":\"", absl::Hex(digest),
                        "\",\"put_aside\":", aside);
  }

  std::string Reference(const BatchCase& c, const DeviceBatch& batch) {
    if (c.entries * c.width > kReferenceValuesMax) {
      throw std::runtime_error("left out: too large for the CPU");
    }
    return absl::StrCat("\"digest\":\"", absl::Hex(ReferenceDigest(queue_, batch, kLsb)), "\"");
  }

  std::string ReduceByCub(const BatchCase& c, const DeviceBatch& batch) {
    if (c.width != 1) throw std::runtime_error("left out: its pairs have one value");
    return TimesOf([&] { SortReduceByCub(queue_, batch.view); });
  }

  // Dense updates of as many contributors, for the density at which sparse ones stop to pay.
  std::string AddDense(const BatchCase& c, bool end_to_end) {
    if (c.width != 1 || c.rows * c.contributors * sizeof(float) > kDenseBytesMax) {
      throw std::runtime_error("left out: dense updates take too much memory");
    }
    DeviceArray<float> updates(queue_, c.rows * c.contributors);
    DeviceArray<float> sums(queue_, c.rows);
    queue_.Fill(updates.data(), 1, updates.size());
    std::optional<PinnedBuffer> host;
    if (end_to_end) host.emplace(updates.bytes());
    return TimesOf([&] {
      if (host.has_value()) {
        queue_.Upload(reinterpret_cast<std::byte*>(updates.data()), host->data(), host->bytes());
      }
      gpu::AddDense(queue_, updates.data(), c.rows, c.contributors, sums.data());
      if (host.has_value()) {
        queue_.Download(reinterpret_cast<float*>(host->data()), sums.data(), sums.size());
      }
      queue_.Synchronize();
    });
  }

  std::string EndToEnd(const BatchCase& c, const DeviceBatch& batch) {
    if (backend_ == nullptr) {
      auto backend = MakeCudaBackend({.memory_bytes = gpu_.memory_bytes / 3});
      Check(backend.status());
      backend_ = *std::move(backend);
    }
    const auto plan = MakePlan(SpecOf(c), WorkloadOf(c), backend_->info());
    Check(plan.status());
    std::vector<double> seconds;
    uint64_t rows_out = 0;
    const int runs = once_ ? 1 : 4;
    while (static_cast<int>(seconds.size()) < runs) {
      seconds.push_back(OneRound(*plan, batch, rows_out));
    }
    const std::string found =
        absl::StrCat("\"chosen\":\"", plan->name, "\",\"rows_out\":", rows_out);
    if (once_) return found;
    std::sort(seconds.begin(), seconds.end());
    const double row_bytes = 8 + 4 * c.width;
    const double in = static_cast<double>(c.entries) * row_bytes / rates_.bus_bytes;
    const double out = static_cast<double>(rows_out) * row_bytes / rates_.bus_back_bytes;
    return absl::StrCat(found, ",\"ms\":", seconds[1] * 1e3, ",\"bus_ms\":", in * 1e3,
                        ",\"bus_back_ms\":", out * 1e3,
                        ",\"times_of_bus\":", seconds[1] / (in + out));
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
      queue_.Download(reinterpret_cast<std::byte*>(staged.back().entries.rows.wide()),
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

  static constexpr int kExitDeviceLost = 4;

  Report& report_;
  const GpuInfo gpu_;
  const bool once_;
  Queue queue_;
  DeviceRates rates_;
  BatchCase batch_case_;
  std::optional<DeviceBatch> batch_;  // of batch_case_
  std::unique_ptr<Backend> backend_;  // made when first needed
};

std::string NamesOfPlans() {
  return absl::StrJoin(DevicePlans(), ",", [](std::string* out, const DevicePlan& row) {
    absl::StrAppend(out, "\"", std::string(row.name), "\"");
  });
}

int Main(const char* steps_path, const char* path, double seconds, bool once) {
  const auto start = Steady::now();
  const std::vector<Step> steps = ReadSteps(steps_path);
  const auto gpus = ProbeGpus();
  if (!gpus.ok()) {
    std::fprintf(stderr, "%s\n", std::string(gpus.status().message()).c_str());
    return 3;
  }
  const GpuInfo& gpu = (*gpus)[0];
  Report report(path);
  report.Line(absl::StrCat(
      "\"kind\":\"device\",\"name\":\"", gpu.name, "\",\"memory_bytes\":", gpu.memory_bytes,
      ",\"multiprocessors\":", gpu.multiprocessors, ",\"plans\":[", NamesOfPlans(), "]"));
  MemoryPool pool(0, gpu.memory_bytes / 2);
  Bench bench(report, pool, gpu, once);
  if (!once) bench.Rates();
  for (size_t i = 0; i < steps.size(); ++i) {
    if (SecondsSince(start) > seconds) {
      report.Line(absl::StrCat("\"kind\":\"time_over\",\"step\":", i));
      return 0;
    }
    report.Line(absl::StrCat("\"kind\":\"begin\",\"step\":", i));
    bench.Run(steps[i]);
  }
  return 0;
}

}  // namespace
}  // namespace sparseagg::gpu

int main(int argc, char** argv) {
  const bool once = argc == 5 && std::string(argv[4]) == "once";
  if (argc != 4 && !once) {
    std::fprintf(stderr, "usage: gpu_reduce STEPS OUTPUT.jsonl SECONDS [once]\n");
    return 2;
  }
  return sparseagg::gpu::Main(argv[1], argv[2], std::atof(argv[3]), once);
}
