// The code that a C++ programmer would write or use instead of this project. None of it is exact.
#ifndef SPARSEAGG_BENCH_REDUCE_PEERS_H_
#define SPARSEAGG_BENCH_REDUCE_PEERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/reduce/case_file.h"
#include "bench/report_file.h"

namespace sparseagg::bench {

// A peer's run: the entries lie in memory, one contributor's after the other's, and its result is
// complete.
struct PeerRun {
  double seconds = 0;
  uint64_t nnz = 0;  // of the result; 0 when it is dense
};

struct Peer {
  std::string name;
  uint32_t threads;
  std::string (*why_not)(const CaseView& updates);  // empty: it can do this case
  PeerRun (*run)(const CaseView& updates, uint32_t threads);
};

// threads: which numbers of threads are asked for.
std::vector<Peer> CppPeers(const std::vector<uint32_t>& threads);

// {"seconds", "peak_bytes", "nnz"} or {"skipped": why}, as MeasureOwn().
Row MeasurePeer(const Peer& peer, const CaseView& updates, int repetitions);

// eigen_peer.cc: the header is slow to compile.
std::string WhyNotEigen(const CaseView& updates);
PeerRun RunEigen(const CaseView& updates, uint32_t threads);

// sort_peers.cc: sort (row, value) pairs, then add up equal rows.
PeerRun RunStdSort(const CaseView& updates, uint32_t threads);
PeerRun RunTbbSort(const CaseView& updates, uint32_t threads);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_PEERS_H_
