// A load on a server: many contributors send one update each into a round of their own, by threads
// that wait for their receipts. What it took, and whether the result is the exact sum.
#ifndef SPARSEAGG_CLIENT_CLI_LOAD_LOAD_H_
#define SPARSEAGG_CLIENT_CLI_LOAD_LOAD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/load/load_updates.h"
#include "client/cli/load/temporary_round.h"
#include "client/client.h"

namespace sparseagg::cli {

struct LoadOptions {
  uint32_t concurrency = 1;  // threads, with a connection each
  uint64_t updates = 1000;   // measured
  uint64_t warm_up = 100;    // before, not measured
  double updates_per_s = 0;  // of all threads together; 0: each sends when it has its receipt
  client::Durability durability = client::Durability::kServerDefault;
  std::string encoding = "auto";
  std::string values = "auto";
  // Makes a client that tells of repeated attempts.
  std::function<absl::StatusOr<std::unique_ptr<client::Client>>(
      std::function<void(const absl::Status& why)> on_retry)>
      connect;
  std::shared_ptr<TemporaryRound> round;        // not null; knows the round while there is one
  std::function<void(uint64_t done)> progress;  // called by one thread at a time
};

struct LoadResult {
  uint64_t updates = 0;
  double seconds = 0;  // from the first measured update to the last receipt
  // Attempts of calls that failed and were repeated, warm-up included, by reason: a server that is
  // full or goes away. Any other error ends the load.
  std::map<std::string, uint64_t> retries;
  uint64_t payload_bytes = 0;
  uint64_t entries = 0;
  // Milliseconds from the call (with a rate: from the moment that the update was due) to the
  // receipt, ascending.
  std::vector<double> latencies_ms;
  double seal_seconds = 0;  // from SealRound to the result
  bool right = false;       // the result is the sum of what was sent, bit by bit
  std::string left;         // why the round is still on the server; empty: it is not

  // The latency that `share` of the updates do not exceed, 0 < share <= 1.
  double Percentile(double share) const;
};

// One round, erased afterwards, whatever became of it.
absl::StatusOr<LoadResult> RunLoad(const LoadUpdates& updates, const LoadOptions& options);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_LOAD_H_
