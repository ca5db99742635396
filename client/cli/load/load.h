// A load test: threads send the updates of many contributors to one temporary round, each waiting
// for its receipts. Measures the time, and checks that the result is the exact sum.
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
  uint32_t concurrency = 1;  // threads; each has a connection
  uint64_t updates = 1000;   // number of measured updates
  uint64_t warm_up = 100;    // updates before them, not measured
  double updates_per_s = 0;  // of all threads together; 0: each sends when it has the last receipt
  client::Durability durability = client::Durability::kServerDefault;
  std::string encoding = "auto";
  std::string values = "auto";
  // Makes a client that reports repeated attempts.
  std::function<absl::StatusOr<std::unique_ptr<client::Client>>(
      std::function<void(const absl::Status& why)> on_retry)>
      connect;
  std::shared_ptr<TemporaryRound> round;        // not null
  std::function<void(uint64_t done)> progress;  // called by one thread at a time
};

struct LoadResult {
  uint64_t updates = 0;
  double seconds = 0;  // from the first measured update to the last receipt
  // The number of repeated attempts by reason, warm-up included: the server was full or away. Any
  // other error ends the load.
  std::map<std::string, uint64_t> retries;
  uint64_t payload_bytes = 0;
  uint64_t entries = 0;
  // Milliseconds from the call to the receipt, ascending. With a rate they begin when the update
  // was due.
  std::vector<double> latencies_ms;
  double seal_seconds = 0;  // from SealRound to the result
  bool is_exact = false;    // the result equals the exact sum, bit by bit
  std::string left;         // why the round was not deleted; empty: it was

  // The latency that the share `share` of the updates does not exceed. REQUIRES: 0 < share <= 1.
  double Percentile(double share) const;
};

// Runs the load in one round, which is deleted afterwards in every case.
absl::StatusOr<LoadResult> RunLoad(const LoadUpdates& updates, const LoadOptions& options);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_LOAD_H_
