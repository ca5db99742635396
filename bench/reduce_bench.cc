// How fast the updates of one case are reduced: every back end and plan of this build, forced and
// as the planner chooses, in batch and in streaming form, with one thread and with all; what a C++
// programmer would use instead; and the machine's own read bandwidth, all in one run and
// interleaved. bench/README.md says what each number means; bench/reduce/run.py drives it.
//
//   reduce_bench CASE [--json FILE] [--threads 1,2] [--forms batch,stream] [--plans auto,dense]
//                [--rounds N] [--no-peers]
//
// Ends with status 1 when two plans gave results of different bits, or the planner's choice failed.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/reduce/case_file.h"
#include "bench/reduce/contest.h"

namespace sparseagg::bench {
namespace {

constexpr const char* kOrderNames[] = {"unknown", "unsorted", "sorted", "canonical"};

Row AboutCase(const CaseView& updates) {
  return {{"entries", updates.entries()},
          {"index_space", updates.layout.num_rows},
          {"contributors", updates.contributors()},
          {"width", updates.layout.row_width},
          {"order", kOrderNames[static_cast<int>(updates.order)]}};
}

bool WriteJson(const std::string& path, const CaseView& updates, const Contest& contest) {
  Row report = {{"case", AboutCase(updates)}};
  for (const auto& [threads, bytes_s] : contest.bandwidth()) {
    report["read_bytes_s"][absl::StrCat(threads)] = bytes_s;
  }
  report["result_nnz"] = contest.ResultNnz();
  report["errors"] = contest.Errors();
  report["rows"] = contest.Rows();
  std::ofstream file(path);
  file << report.dump(1) << '\n';
  if (file.flush()) return true;
  std::fprintf(stderr, "reduce_bench: cannot write %s\n", path.c_str());
  return false;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the reduction of the updates of one case");
  ContestOptions options;
  const uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  options.threads = cores == 1 ? std::vector{1U} : std::vector{1U, cores};
  options.forms = {"batch", "stream"};
  size_t bandwidth_mb = 256;
  std::string path;
  std::string json;
  bool no_peers = false;
  app.add_option("case", path, "file that bench/reduce/cases.py wrote")->required();
  app.add_option("--threads", options.threads, "numbers of threads")->delimiter(',');
  app.add_option("--forms", options.forms, "batch, packed, stream")
      ->delimiter(',')
      ->check(CLI::IsMember({"batch", "packed", "stream"}));
  app.add_option("--plans", options.plans, "only these; auto is the planner's choice")
      ->delimiter(',');
  app.add_option("--rounds", options.rounds, "of all contenders; 0: by the size of the case");
  app.add_option("--seconds-max", options.seconds_max, "no further rounds of a contender after it");
  app.add_option("--bandwidth-mb", bandwidth_mb, "memory read to measure the bandwidth");
  app.add_flag("--no-peers", no_peers, "only the back ends of this build");
  app.add_option("--json", json, "file to write");
  CLI11_PARSE(app, argc, argv);
  options.cpp_peers = !no_peers;
  options.bandwidth_bytes = bandwidth_mb << 20;

  const auto file = CaseFile::Open(path);
  if (!file.ok()) {
    std::fprintf(stderr, "reduce_bench: %s\n", std::string(file.status().message()).c_str());
    return 2;
  }
  Contest contest(file->view(), options);
  contest.Run();
  std::printf("%s: %s\n", path.c_str(), AboutCase(file->view()).dump().c_str());
  for (const auto& [threads, bytes_s] : contest.bandwidth()) {
    std::printf("%-28s %u threads %.1f GB/s\n", "read bandwidth", threads, bytes_s / 1e9);
  }
  for (const Row& row : contest.Rows()) std::printf("%s\n", LineOf(row).c_str());
  const std::vector<std::string> errors = contest.Errors();
  for (const std::string& error : errors) {
    std::fprintf(stderr, "reduce_bench: %s\n", error.c_str());
  }
  const bool written = json.empty() || WriteJson(json, file->view(), contest);
  return written && errors.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sparseagg::bench

int main(int argc, char** argv) { return sparseagg::bench::Main(argc, argv); }
