// bench: a load test of a server, for one concurrency after the other, which also checks the sum.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/load/load.h"
#include "client/cli/load/replayed_updates.h"
#include "client/cli/load/synthetic_updates.h"
#include "client/cli/output.h"
#include "client/cli/progress_bar.h"
#include "client/cli/tensor_spec.h"

namespace sparseagg::cli {
namespace {

// The number of distinct updates in memory. It is large enough that repeating them does not keep
// the rows of the sum in a cache.
constexpr size_t kPoolSize = 64;

using Backends = std::span<const BackendFactory>;

struct BenchFlags {
  CommonFlags common;
  SyntheticShape shape;
  std::optional<uint64_t> nnz_min;  // unset: nnz_max
  std::string concurrency = "1,4,16";
  LoadOptions load;
  std::string durability;
  std::vector<std::string> replay;  // files that replace the generated updates
};

struct Level {
  uint32_t concurrency;
  LoadResult result;
};

nlohmann::json ToJson(const Level& level) {
  const LoadResult& result = level.result;
  return {{"concurrency", level.concurrency},
          {"updates", result.updates},
          {"seconds", result.seconds},
          {"updates_per_s", static_cast<double>(result.updates) / result.seconds},
          {"entries_per_s", static_cast<double>(result.entries) / result.seconds},
          {"payload_bytes_per_s", static_cast<double>(result.payload_bytes) / result.seconds},
          {"payload_bytes", result.payload_bytes},
          {"latency_ms",
           {{"p50", result.Percentile(0.5)},
            {"p90", result.Percentile(0.9)},
            {"p95", result.Percentile(0.95)},
            {"p99", result.Percentile(0.99)},
            {"max", result.Percentile(1)}}},
          {"retries", result.retries},
          {"seal_seconds", result.seal_seconds},
          {"sum_is_exact", result.is_exact},
          {"left", result.left}};
}

std::string Table(const std::vector<Level>& levels) {
  std::string text = absl::StrFormat("%11s %11s %11s %9s %9s %9s %9s %9s %9s  %s\n", "concurrency",
                                     "updates/s", "entries/s", "MB/s", "p50 ms", "p95 ms", "p99 ms",
                                     "max ms", "seal ms", "sum");
  for (const Level& level : levels) {
    const LoadResult& result = level.result;
    absl::StrAppendFormat(&text, "%11d %11.0f %11.3g %9.1f %9.2f %9.2f %9.2f %9.2f %9.1f  %s\n",
                          level.concurrency, static_cast<double>(result.updates) / result.seconds,
                          static_cast<double>(result.entries) / result.seconds,
                          static_cast<double>(result.payload_bytes) / result.seconds / 1e6,
                          result.Percentile(0.5), result.Percentile(0.95), result.Percentile(0.99),
                          result.Percentile(1), 1000 * result.seal_seconds,
                          result.is_exact ? "exact" : "WRONG");
  }
  for (const Level& level : levels) {
    if (level.result.retries.empty()) continue;
    absl::StrAppend(&text, "concurrency ", level.concurrency, ": repeated after",
                    absl::StrJoin(level.result.retries, ",",
                                  [](std::string* out, const auto& row) {
                                    absl::StrAppend(out, " ", row.second, " x ", row.first);
                                  }),
                    "\n");
  }
  for (const Level& level : levels) {
    if (!level.result.left.empty()) absl::StrAppend(&text, level.result.left, "\n");
  }
  return text;
}

absl::StatusOr<std::unique_ptr<LoadUpdates>> MakeUpdates(const BenchFlags& flags,
                                                         Backends backends) {
  if (flags.replay.empty()) {
    const size_t pool_size = std::min<uint64_t>(kPoolSize, flags.load.warm_up + flags.load.updates);
    SPARSEAGG_ASSIGN_OR_RETURN(auto made, SyntheticUpdates::Make(flags.shape, pool_size));
    return std::make_unique<SyntheticUpdates>(std::move(made));
  }
  if (flags.load.values != "auto" && flags.load.values != "raw") {
    return BadArgument(
        "--values may round recorded values, and their sum could not be checked; leave it out");
  }
  SPARSEAGG_ASSIGN_OR_RETURN(auto read, ReplayedUpdates::Read(flags.replay, backends));
  return std::make_unique<ReplayedUpdates>(std::move(read));
}

absl::StatusOr<std::vector<uint32_t>> ParseConcurrency(const std::string& text) {
  constexpr uint32_t kThreadsMax = 1024;
  std::vector<uint32_t> numbers;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    uint32_t& number = numbers.emplace_back();
    if (!absl::SimpleAtoi(part, &number) || number < 1 || number > kThreadsMax) {
      return BadArgument(
          absl::StrCat("--concurrency: \"", part, "\" is not in [1, ", kThreadsMax, "]"));
    }
  }
  return numbers;
}

// The parameters of the load, for JSON.
nlohmann::json Describe(const BenchFlags& flags) {
  if (!flags.replay.empty()) return {{"replay", flags.replay}};
  return {{"rows", flags.shape.num_rows},
          {"width", flags.shape.row_width},
          {"nnz_min", flags.shape.nnz_min},
          {"nnz_max", flags.shape.nnz_max},
          {"indices", flags.shape.indices}};
}

// The round of the current load, which Ctrl-C deletes, too. Starts a thread.
std::shared_ptr<TemporaryRound> RoundOfBench(const CommonFlags& flags) {
  constexpr double kEraseSeconds = 5;
  CommonFlags once = flags;
  once.attempts = 1;
  once.timeout_s = kEraseSeconds;
  auto round = std::make_shared<TemporaryRound>([once] { return Connect(once); });
  EraseOnInterrupt(round, [once](const absl::Status& erased) {
    if (isatty(STDERR_FILENO) == 1) std::fputc('\n', stderr);  // after a progress bar
    return Report(
        MakeError(absl::StatusCode::kCancelled, "INTERRUPTED",
                  erased.ok() ? "interrupted; no round is left on the server"
                              : absl::StrCat("interrupted; ", std::string(erased.message()))),
        once);
  });
  return round;
}

absl::Status Bench(BenchFlags& flags, Backends backends) {
  flags.shape.nnz_min = flags.nnz_min.value_or(flags.shape.nnz_max);
  if (flags.durability == "memory") flags.load.durability = client::Durability::kMemory;
  if (flags.durability == "durable") flags.load.durability = client::Durability::kDurable;
  SPARSEAGG_ASSIGN_OR_RETURN(const auto concurrencies, ParseConcurrency(flags.concurrency));
  LoadOptions options = flags.load;
  options.round = RoundOfBench(flags.common);
  SPARSEAGG_ASSIGN_OR_RETURN(const auto updates, MakeUpdates(flags, backends));
  options.connect = [&flags](auto on_retry) { return Connect(flags.common, std::move(on_retry)); };
  std::vector<Level> levels;
  for (const uint32_t concurrency : concurrencies) {
    ProgressBar bar(absl::StrCat("concurrency ", concurrency));
    options.concurrency = concurrency;
    options.progress = [&](uint64_t done) { bar.Step(done, options.warm_up + options.updates); };
    SPARSEAGG_ASSIGN_OR_RETURN(LoadResult result, RunLoad(*updates, options));
    levels.push_back({concurrency, std::move(result)});
  }
  nlohmann::json rows = nlohmann::json::array();
  bool all_exact = true;
  for (const Level& level : levels) {
    rows.push_back(ToJson(level));
    all_exact &= level.result.is_exact;
  }
  nlohmann::json report = Describe(flags);
  report["server"] = flags.common.server;
  report["levels"] = std::move(rows);
  flags.common.json ? PrintJson(report) : Print(Table(levels));
  if (all_exact) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, "WRONG_SUM",
                   "the server published a sum that is not that of the updates with receipts");
}

// Checks that the last update is due within the range of the clock.
std::string IsRate(const std::string& text) {
  constexpr double kRateMin = 1e-3;
  const double rate = std::atof(text.c_str());
  return rate == 0 || rate >= kRateMin
             ? std::string()
             : absl::StrCat(text, " is neither 0 nor at least ", kRateMin);
}

// The flags for the shape of generated updates; replayed ones have their own.
void AddShapeFlags(CLI::App& command, BenchFlags& flags, CLI::Option* replay) {
  SyntheticShape& shape = flags.shape;
  command.add_option("--rows", shape.num_rows, "Rows of the tensor")
      ->capture_default_str()
      ->excludes(replay);
  command.add_option("--width", shape.row_width, "Values of a row")
      ->capture_default_str()
      ->excludes(replay);
  command.add_option("--nnz", shape.nnz_max, "Rows of an update; with --nnz-min: the most")
      ->capture_default_str()
      ->check(NotNegative)
      ->excludes(replay);
  command
      .add_option(
          "--nnz-min", flags.nnz_min,
          "Fewest rows of an update (default: --nnz); their number is uniform between the two")
      ->check(NotNegative)
      ->excludes(replay);
  command.add_option("--indices", shape.indices, "uniform, zipf or topk")
      ->check(CLI::IsMember({"uniform", "zipf", "topk"}))
      ->capture_default_str()
      ->excludes(replay);
  command.add_option("--seed", shape.seed, "Seed of the random updates")
      ->capture_default_str()
      ->excludes(replay);
}

}  // namespace

void AddBenchCommand(CLI::App& app, const CliContext& context) {
  auto flags = std::make_shared<BenchFlags>();
  flags->shape.nnz_max = 1000;
  CLI::App& command = *app.add_subcommand(
      "bench",
      "Load test of a server with generated or recorded updates; checks that the sum is exact");
  command
      .add_option("--concurrency", flags->concurrency,
                  "Numbers of threads that send at the same time; one measurement for each number")
      ->capture_default_str();
  command
      .add_option("--updates", flags->load.updates, "Measured updates, for each number of threads")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000}))
      ->capture_default_str();
  command
      .add_option("--warm-up", flags->load.warm_up, "Updates before these, which are not measured")
      ->check(CLI::Range(uint64_t{0}, uint64_t{30'000}))
      ->capture_default_str();
  command
      .add_option("--rate", flags->load.updates_per_s,
                  "Updates per second of all threads (0: as fast as receipts arrive)")
      ->check(NumberIn(0, 1e7))
      ->check(IsRate);
  CLI::Option* replay = AddRepeated(command, "--replay", flags->replay,
                                    "Send this recorded update, [NAME=]FILE as in push, instead of "
                                    "generated ones (may be repeated)");
  AddShapeFlags(command, *flags, replay);
  command
      .add_option("--durability", flags->durability, "memory or durable (default: the server's)")
      ->check(CLI::IsMember({"memory", "durable"}));
  command.add_option("--encoding", flags->load.encoding, "As in push")
      ->check(IsEncoding())
      ->capture_default_str();
  command
      .add_option("--values", flags->load.values,
                  "Encoding of values: auto, raw, f32, bf16 or f16, which are exact for generated "
                  "values (int8 and int4 are not, and the sum could not be checked)")
      ->check(CLI::IsMember({"auto", "raw", "f32", "bf16", "f16"}))
      ->capture_default_str();
  AddCommonFlags(command, flags->common);
  SetBody(command, context, flags->common,
          [flags, backends = context.backends] { return Bench(*flags, backends); });
}

}  // namespace sparseagg::cli
