// How fast updates are reduced: every back end and plan of this build that suits the case, the
// naive dense f32 sum a user would write instead, and the machine's own read bandwidth, all in one
// run and interleaved.
//
//   reduce_bench [--quick] [--threads N] [--json FILE]
//
// A case is (entries, index space, contributors, order of rows, row width) of f32 values. Time runs
// from the first staged update to the complete result; staging (a copy) is not part of it. Reported
// are medians:
//   ns_entry   nanoseconds an entry      x_naive   time over that of the naive dense f32 sum; 0: it
//   would not fit limit_pct  the time to read the entries once and write the result once at the
//   measured bandwidth, in percent of the
//              time taken
//   spread     slowest over fastest repetition: the machine's noise
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/report_file.h"
#include "sparse/backend.h"

namespace sparseagg::bench {
namespace {

constexpr int kRepetitions = 5;
constexpr uint64_t kNaiveBytesMax = uint64_t{1} << 30;  // largest dense array of the naive sum
constexpr uint64_t kReferenceEntriesMax =
    100'000;  // the definition is slow; beyond that it says nothing new

enum class Order { kSorted, kShuffled, kZipf };
constexpr const char* kOrderNames[] = {"uniform sorted", "uniform shuffled", "zipf shuffled"};

struct Case {
  uint64_t entries;  // of all contributors
  uint64_t num_rows;
  uint32_t contributors;
  Order order;
  uint32_t row_width;
};

constexpr uint64_t kHuge = uint64_t{1} << 60;
constexpr Case kCases[] = {
    {10'000, 1'000'000, 10, Order::kSorted, 1},
    {1'000'000, 100'000, 10, Order::kSorted, 1},
    {1'000'000, 1'000'000, 10, Order::kSorted, 1},
    {1'000'000, 1'000'000, 10, Order::kShuffled, 1},
    {1'000'000, 1'000'000, 1000, Order::kSorted, 1},
    {1'000'000, 1'000'000, 10, Order::kZipf, 1},
    {1'000'000, 100'000'000, 10, Order::kSorted, 1},
    {1'000'000, 100'000'000, 10, Order::kShuffled, 1},
    {1'000'000, kHuge, 1000, Order::kShuffled, 1},
    {100'000, 1'000'000, 100, Order::kSorted, 64},
    {10'000'000, 10'000'000, 100, Order::kSorted, 1},
    {10'000'000, 10'000'000, 100, Order::kZipf, 1},
};

struct Update {
  std::vector<uint64_t> rows;
  std::vector<float> values;
};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Update> MakeUpdates(const Case& c) {
  std::mt19937_64 random(c.entries ^ c.num_rows ^ c.contributors);
  std::normal_distribution<float> normal(0, 1e-2f);
  std::vector<Update> updates(c.contributors);
  for (Update& update : updates) {
    update.rows.resize(c.entries / c.contributors);
    for (uint64_t& row : update.rows) {
      if (c.order == Order::kZipf) {
        // A power law by inversion, exponent about 1.1, scattered over the index space.
        const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
        const auto rank = static_cast<uint64_t>(std::min(std::pow(u, -1 / 0.1), 1e15));
        row = (rank * 0x9E3779B97F4A7C15u) % c.num_rows;
      } else {
        row = random() % c.num_rows;
      }
    }
    if (c.order == Order::kSorted) std::sort(update.rows.begin(), update.rows.end());
    update.values.resize(update.rows.size() * c.row_width);
    for (float& value : update.values) value = normal(random);
  }
  return updates;
}

// Bytes a second of reading memory with all threads, the best of three passes over 512 MiB.
double ReadBandwidth(uint32_t threads) {
  std::vector<uint64_t> data(uint64_t{64} << 20, 1);
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<uint64_t> sums(threads);
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::jthread> readers;
    for (uint32_t t = 0; t < threads; ++t) {
      readers.emplace_back([&, t] {
        const size_t begin = data.size() * t / threads;
        const size_t end = data.size() * (t + 1) / threads;
        sums[t] = std::accumulate(data.begin() + begin, data.begin() + end, uint64_t{0});
      });
    }
    readers.clear();
    const double seconds = SecondsSince(start);
    if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) != data.size()) std::abort();
    best = std::max(best, static_cast<double>(data.size() * sizeof(uint64_t)) / seconds);
  }
  return best;
}

// What a user writes without us: one dense f32 array, added to in order of arrival. Neither exact
// nor sparse.
double TimeNaive(const Case& c, const std::vector<Update>& updates) {
  if (c.num_rows > kNaiveBytesMax / sizeof(float) / c.row_width) return 0;
  const auto start = std::chrono::steady_clock::now();
  std::vector<float> dense(c.num_rows * c.row_width);
  for (const Update& update : updates) {
    for (size_t e = 0; e < update.rows.size(); ++e) {
      for (uint32_t v = 0; v < c.row_width; ++v) {
        dense[update.rows[e] * c.row_width + v] += update.values[e * c.row_width + v];
      }
    }
  }
  const double seconds = SecondsSince(start);
  if (!std::isfinite(dense[0])) std::abort();
  return seconds;
}

struct Timing {
  double seconds;
  uint64_t nnz;
};

// Aborts the measurement on an error: a number after one would mean nothing.
Timing TimePlan(Backend& backend, const Plan& plan, const std::vector<Update>& updates) {
  const auto check = [](const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "reduce_bench: %s\n", status.ToString().c_str());
    std::exit(1);
  };
  auto aggregator = backend.NewAggregator(plan);
  check(aggregator.status());
  std::vector<StagedUpdate> staged;
  for (const Update& update : updates) {
    auto one = (*aggregator)->Stage(update.rows.size());
    check(one.status());
    std::memcpy(one->entries.indices, update.rows.data(), update.rows.size() * sizeof(uint64_t));
    std::memcpy(one->entries.values, update.values.data(), update.values.size() * sizeof(float));
    staged.push_back(*std::move(one));
  }
  const auto start = std::chrono::steady_clock::now();
  for (StagedUpdate& update : staged) check((*aggregator)->Accumulate(std::move(update), 1.0f));
  const auto result = std::move(**aggregator).Report();
  const double seconds = SecondsSince(start);
  check(result.status());
  return {seconds, result->tensor.nnz()};
}

struct Contender {
  Backend* backend;
  Plan plan;
  std::vector<double> seconds;
};

std::vector<Contender> Contenders(const Case& c,
                                  const std::vector<std::unique_ptr<Backend>>& backends) {
  ReduceSpec spec;
  spec.name = "t";
  spec.layout = {c.num_rows, c.row_width, ValueType::kF32};
  std::vector<Contender> contenders;
  for (const auto& backend : backends) {
    if (backend->info().name == "reference" && c.entries > kReferenceEntriesMax) continue;
    for (const std::string& name : backend->info().plans) {
      const auto plan =
          MakePlan(spec, {c.contributors, c.entries / c.contributors}, backend->info(), name);
      if (plan.ok()) contenders.push_back({backend.get(), *plan, {}});
    }
  }
  return contenders;
}

void RunCase(const Case& c, const std::vector<std::unique_ptr<Backend>>& backends, double bandwidth,
             std::vector<Row>& rows) {
  const std::vector<Update> updates = MakeUpdates(c);
  std::vector<Contender> contenders = Contenders(c, backends);
  std::vector<double> naive;
  uint64_t nnz = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    naive.push_back(TimeNaive(c, updates));
    for (Contender& contender : contenders) {
      const Timing timing = TimePlan(*contender.backend, contender.plan, updates);
      contender.seconds.push_back(timing.seconds);
      nnz = timing.nnz;
    }
  }
  const double entry_bytes = sizeof(uint64_t) + c.row_width * sizeof(float);
  const double floor = entry_bytes * static_cast<double>(c.entries + nnz) / bandwidth;
  for (const Contender& contender : contenders) {
    const double seconds = Median(contender.seconds);
    const auto [fastest, slowest] =
        std::minmax_element(contender.seconds.begin(), contender.seconds.end());
    rows.push_back(
        {{"entries", c.entries},
         {"index_space", c.num_rows},
         {"contributors", c.contributors},
         {"order", kOrderNames[static_cast<int>(c.order)]},
         {"width", c.row_width},
         {"density", static_cast<double>(nnz) / static_cast<double>(c.num_rows)},
         {"plan", absl::StrCat(contender.backend->info().name, "/", contender.plan.name)},
         {"ns_entry", seconds * 1e9 / static_cast<double>(c.entries)},
         {"Mnnz_s", static_cast<double>(c.entries) / seconds / 1e6},
         {"x_naive", Median(naive) > 0 ? seconds / Median(naive) : 0.0},
         {"limit_pct", 100 * floor / seconds},
         {"spread", *slowest / *fastest}});
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the reduction of sparse updates");
  bool quick = false;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::string json;
  app.add_flag("--quick", quick, "only the cases of up to a million entries");
  app.add_option("--threads", threads, "threads of the back ends");
  app.add_option("--json", json, "file to write");
  CLI11_PARSE(app, argc, argv);

  std::vector<std::unique_ptr<Backend>> backends;
  for (const BackendFactory& factory : AllBackends()) {
    auto backend = factory.make({.threads = threads});
    if (backend.ok()) backends.push_back(*std::move(backend));
  }
  const double bandwidth = ReadBandwidth(threads);
  std::vector<Row> rows;
  for (const Case& c : kCases) {
    if (quick && c.entries > 1'000'000) continue;
    std::fprintf(stderr, "reduce_bench: %lu entries, %lu rows, %u contributors, %s\n", c.entries,
                 c.num_rows, c.contributors, kOrderNames[static_cast<int>(c.order)]);
    RunCase(c, backends, bandwidth, rows);
  }
  const std::string name = absl::StrCat("reduce, ", threads, " threads, memory reads at ",
                                        static_cast<int>(bandwidth / 1e8) / 10.0, " GB/s");
  return json.empty() || WriteReport(json, name, rows) ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::bench

int main(int argc, char** argv) { return sparseagg::bench::Main(argc, argv); }
