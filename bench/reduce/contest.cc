#include "bench/reduce/contest.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/reduce/bandwidth.h"
#include "bench/reduce/child.h"
#include "bench/reduce/own.h"
#include "bench/reduce/peers.h"
#include "bench/reduce/stopwatch.h"
#include "sparse/backend.h"

namespace sparseagg::bench {
namespace {

// The reference back end is the definition, and slow: beyond this many values it says nothing new.
constexpr uint64_t kReferenceValuesMax = 200'000;

// What takes this many times the time of our fastest plan is measured once: a plan is not the best
// then, and of a peer's distance nothing depends on the last percent.
constexpr double kPlanBeatenFactor = 3;
constexpr double kPeerBeatenFactor = 50;

uint64_t ValuesOf(const CaseView& updates) { return updates.entries() * updates.layout.row_width; }

int RoundsFor(uint64_t values) { return values <= 2'000'000 ? 5 : values <= 30'000'000 ? 3 : 2; }

// Runs that count in one process: short ones until their noise is small against them.
int RepetitionsFor(uint64_t values) {
  if (values <= 20'000) return 21;
  if (values <= 200'000) return 9;
  return 3;
}

bool Wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<double> Column(const std::vector<Row>& rows, const char* name) {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back(row.at(name).get<double>());
  return values;
}

}  // namespace

Contest::Contest(const CaseView& updates, const ContestOptions& options)
    : updates_(updates),
      options_(options),
      rounds_(options.rounds > 0 ? options.rounds : RoundsFor(ValuesOf(updates))),
      repetitions_(RepetitionsFor(ValuesOf(updates))) {
  AddOwn();
  if (options_.cpp_peers) AddPeers();
}

void Contest::AddOwn() {
  for (const BackendFactory& factory : AllBackends()) {
    if (factory.name == "reference" && ValuesOf(updates_) > kReferenceValuesMax) continue;
    const Row listed = InChild([&] { return Row{{"plans", PlansOf(factory)}}; });
    auto plans = listed.value("plans", std::vector<std::string>{});
    if (plans.empty()) continue;  // the back end cannot run here
    // One plan is no choice, and the reference's one knows neither threads nor batches.
    const bool one = plans.size() == 1;
    if (!one) plans.insert(plans.begin(), "auto");
    for (const std::string& plan : plans) {
      if (!one && !Wanted(options_.plans, plan)) continue;
      for (const std::string& form : one ? std::vector<std::string>{"batch"} : options_.forms) {
        for (const uint32_t threads : one ? std::vector<uint32_t>{1} : options_.threads) {
          const OwnContender own = {&factory, plan == "auto" ? "" : plan, threads, form};
          contenders_.push_back(
              {.name = absl::StrCat(std::string(factory.name), "/", plan),
               .own = true,
               .threads = threads,
               .form = form,
               .measure = [this, own](int n) { return MeasureOwn(own, updates_, n); }});
        }
      }
    }
  }
}

void Contest::AddPeers() {
  for (const Peer& peer : CppPeers(options_.threads)) {
    contenders_.push_back(
        {.name = peer.name,
         .own = false,
         .threads = peer.threads,
         .form = "batch",
         .measure = [this, peer](int n) { return MeasurePeer(peer, updates_, n); }});
  }
}

void Contest::MeasureBandwidth() {
  for (const uint32_t threads : options_.threads) {
    const Row row = InChild([&] {
      return Row{{"bytes_s", ReadBandwidth(threads, options_.bandwidth_bytes)}};
    });
    bandwidth_[threads] = std::max(bandwidth_[threads], row.value("bytes_s", 0.0));
  }
}

bool Contest::HasEnough(const Contender& contender) const {
  if (contender.runs.empty()) return !contender.skipped.empty();
  if (contender.wall_seconds > options_.seconds_max) return true;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Contender& other : contenders_) {
    if (!other.own || other.threads != contender.threads || other.form != contender.form) continue;
    for (const double seconds : Column(other.runs, "seconds")) fastest = std::min(fastest, seconds);
  }
  const std::vector<double> seconds = Column(contender.runs, "seconds");
  const double factor = contender.own ? kPlanBeatenFactor : kPeerBeatenFactor;
  return *std::min_element(seconds.begin(), seconds.end()) > factor * fastest;
}

void Contest::Run() {
  MeasureBandwidth();
  for (int round = 0; round < rounds_; ++round) {
    for (Contender& contender : contenders_) {
      if (round > 0 && HasEnough(contender)) continue;
      const Stopwatch wall;
      Row row = InChild([&] { return contender.measure(repetitions_); });
      contender.wall_seconds += wall.Seconds();
      if (row.contains("skipped")) {
        contender.skipped = row["skipped"].get<std::string>();
      } else {
        contender.runs.push_back(std::move(row));
      }
    }
  }
  MeasureBandwidth();
}

Row Contest::RowOf(const Contender& contender) const {
  Row row = {{"contender", contender.name},
             {"own", contender.own},
             {"threads", contender.threads},
             {"form", contender.form}};
  if (!contender.skipped.empty()) {
    row["skipped"] = contender.skipped;
    return row;
  }
  const std::vector<double> seconds = Column(contender.runs, "seconds");
  const double median = Median(seconds);
  const Row& last = contender.runs.back();
  row["seconds"] = median;
  row["seconds_min"] = *std::min_element(seconds.begin(), seconds.end());
  row["seconds_max"] = *std::max_element(seconds.begin(), seconds.end());
  row["runs"] = seconds;
  row["ns_entry"] = median * 1e9 / static_cast<double>(updates_.entries());
  row["peak_bytes"] = Median(Column(contender.runs, "peak_bytes"));
  row["input_bytes"] = updates_.entry_bytes() * updates_.entries();
  row["output_bytes"] = updates_.entry_bytes() * ResultNnz();
  const auto bytes =
      static_cast<double>(updates_.entry_bytes() * (updates_.entries() + ResultNnz()));
  row["gb_s"] = bytes / median / 1e9;
  const auto bandwidth = bandwidth_.find(contender.threads);
  if (bandwidth != bandwidth_.end() && bandwidth->second > 0) {
    row["limit_percent"] = 100 * bytes / bandwidth->second / median;
  }
  if (contender.own) {
    row["stage_seconds"] = Median(Column(contender.runs, "stage_seconds"));
    row["plan"] = last.at("plan");
    row["reason"] = last.at("reason");
    row["predicted_seconds"] = last.at("predicted_seconds");
    row["plan_seconds"] = Median(Column(contender.runs, "plan_seconds"));
    row["digest"] = absl::StrCat(absl::Hex(last.at("digest").get<uint64_t>(), absl::kZeroPad16));
  }
  return row;
}

uint64_t Contest::ResultNnz() const {
  for (const Contender& contender : contenders_) {
    if (contender.runs.empty()) continue;
    if (const auto nnz = contender.runs.front().at("nnz").get<uint64_t>(); nnz > 0) return nnz;
  }
  return 0;
}

std::vector<Row> Contest::Rows() const {
  std::vector<Row> rows;
  for (const Contender& contender : contenders_) rows.push_back(RowOf(contender));
  return rows;
}

std::vector<std::string> Contest::Errors() const {
  std::vector<std::string> errors;
  const Contender* first = nullptr;
  for (const Contender& contender : contenders_) {
    const std::string who =
        absl::StrCat(contender.name, ", ", contender.threads, " threads, ", contender.form);
    if (contender.own && !contender.skipped.empty() && contender.name.ends_with("/auto")) {
      errors.push_back(absl::StrCat(who, " failed: ", contender.skipped));
    }
    if (contender.own && first == nullptr && !contender.runs.empty()) first = &contender;
    for (const Row& run : contender.runs) {
      // A peer's rounding may differ, the rows that it has may not.
      const char* what = contender.own ? "digest" : "nnz";
      const bool dense = run.at("nnz") == 0;
      if (first != nullptr && !dense && run.at(what) != first->runs.front().at(what)) {
        errors.push_back(
            absl::StrCat(who, ": the ", what, " of its result differs from that of ", first->name));
        break;
      }
    }
  }
  return errors;
}

std::string LineOf(const Row& row) {
  std::string line =
      absl::StrFormat("%-28s %u threads %-6s", row["contender"].get<std::string>(),
                      row["threads"].get<uint32_t>(), row["form"].get<std::string>());
  if (row.contains("skipped")) {
    return absl::StrCat(line, "  skipped: ", row["skipped"].get<std::string>());
  }
  const double seconds = row["seconds"].get<double>();
  absl::StrAppendFormat(&line, " %10.3f ms (%.3f .. %.3f) %9.2f ns/entry", seconds * 1e3,
                        row["seconds_min"].get<double>() * 1e3,
                        row["seconds_max"].get<double>() * 1e3, row["ns_entry"].get<double>());
  absl::StrAppendFormat(&line, " %5.1f %% of limit, peak %7.1f MB", row.value("limit_percent", 0.0),
                        row["peak_bytes"].get<double>() / 1e6);
  if (!row["own"].get<bool>()) return line;
  if (const double predicted = row["predicted_seconds"].get<double>(); predicted > 0) {
    absl::StrAppendFormat(&line, "  predicted %.3f ms, took %.3f ms", predicted * 1e3,
                          row["plan_seconds"].get<double>() * 1e3);
  }
  if (row["contender"].get<std::string>().ends_with("/auto")) {
    absl::StrAppend(&line, "  ", row["plan"].get<std::string>(), ": ",
                    row["reason"].get<std::string>());
  }
  return line;
}

}  // namespace sparseagg::bench
