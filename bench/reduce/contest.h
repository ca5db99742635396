// One case, all contenders, interleaved: each round runs every contender once, in a process of its
// own, so that a slow minute of the machine hits all of them.
#ifndef SPARSEAGG_BENCH_REDUCE_CONTEST_H_
#define SPARSEAGG_BENCH_REDUCE_CONTEST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/reduce/case_file.h"
#include "bench/report_file.h"

namespace sparseagg::bench {

struct ContestOptions {
  std::vector<uint32_t> threads;   // 1, and all of the machine
  std::vector<std::string> forms;  // "batch", "packed", "stream"
  std::vector<std::string> plans;  // "auto" is the planner's choice; empty: all
  bool cpp_peers = true;
  int rounds = 0;              // 0: by the size of the case
  double seconds_max = 10;     // a contender that has used this much has no further rounds
  size_t bandwidth_bytes = 0;  // read to measure the bandwidth
};

// A contender of a contest and what its rounds gave.
struct Contender {
  std::string name;
  bool own;  // a back end of this build, whose result must have the same bits as every other's
  uint32_t threads;
  std::string form;
  std::function<Row(int repetitions)> measure;

  std::vector<Row> runs;
  double wall_seconds = 0;  // of all runs, with staging
  std::string skipped;      // why it has no runs
};

class Contest {
 public:
  Contest(const CaseView& updates, const ContestOptions& options);

  void Run();

  // One for each contender: medians over the rounds.
  std::vector<Row> Rows() const;

  // Bytes a second that a number of threads read.
  const std::map<uint32_t, double>& bandwidth() const { return bandwidth_; }

  // Entries of the result; 0 when nothing ran.
  uint64_t ResultNnz() const;

  // What must not be: results of different bits, a planner's choice that does not run. Empty when
  // all is well.
  std::vector<std::string> Errors() const;

 private:
  void AddOwn();
  void AddPeers();
  void MeasureBandwidth();
  // Returns whether another run would tell nothing new.
  bool HasEnough(const Contender& contender) const;
  Row RowOf(const Contender& contender) const;

  const CaseView& updates_;
  const ContestOptions options_;
  const int rounds_;
  const int repetitions_;  // of a run in one process
  std::vector<Contender> contenders_;
  std::map<uint32_t, double> bandwidth_;
};

// A row as one short line for people.
std::string LineOf(const Row& row);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_CONTEST_H_
