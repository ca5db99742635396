// The values that the engine takes and returns.
#ifndef SPARSEAGG_SERVICE_ENGINE_TYPES_H_
#define SPARSEAGG_SERVICE_ENGINE_TYPES_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/engine/names.h"
#include "service/engine/round_policy.h"
#include "service/engine/round_state.h"
#include "service/engine/round_tree.h"
#include "service/store/store.h"
#include "sparse/backend.h"
#include "sparse/encoding.h"

namespace sparseagg {

struct RoundSpec {
  std::vector<TensorSpec> tensors;
  Durability durability = Durability::kMemory;
  RoundPolicy policy;
  bool keep_updates = false;  // keeps the updates until the round is deleted, for VerifyRound()
  // The result is the partial aggregate, for another round, and is not rounded.
  bool publish_partial = false;
  RoundTree tree;
};

// The encoded bytes of one tensor of an update. The sizes in the header equal the lengths of the
// chains.
struct EncodedTensor {
  EncodedHeader header;
  ByteChain indices;
  ByteChain values;
};

struct UpdateHeader {
  std::string round;  // "rounds/{id}"; empty in a StatelessReduction
  std::string contributor;
  std::string update_id;
  float weight = 1.0f;
};

struct Receipt {
  std::string round;
  std::string contributor;
  std::string update_id;
  bool duplicate = false;
  uint64_t sequence = 0;  // from 1
  std::string digest;     // SHA-256, 32 bytes
  Durability durability = Durability::kMemory;
  StoreEpoch epoch;
};

struct Manifest {
  uint64_t contributors = 0;
  double total_weight = 0;                   // exact sum, rounded once
  std::map<std::string, uint64_t> rejected;  // by reason
  std::map<std::string, uint64_t> late;      // subset of `rejected`: by what closed the round
  uint64_t duplicates = 0;
  // Empty where a reduction computes no digests, or has merged partial aggregates.
  std::string updates_digest;
  std::string result_digest;
  uint64_t infinite_values = 0;
  std::chrono::system_clock::time_point publish_time;
  std::optional<SealReason> seal_reason;     // unset for a stateless reduction
  std::vector<std::string> given_up_leaves;  // ids, ascending
  std::vector<ResultPart> parts;             // of a divided result, in the order of their rows
};

struct TensorStatus {
  std::string name;
  std::string backend;
  PlanReport reduction;  // as of the last folded update
  uint64_t nnz_received = 0;
  uint64_t nnz_result = 0;
};

// The state of a round at one moment, as callers see it.
struct RoundSnapshot {
  std::string tenant;
  std::string name;  // without the tenant
  RoundState state = RoundState::kOpen;
  RoundSpec spec;
  std::chrono::system_clock::time_point create_time;
  std::optional<std::chrono::system_clock::time_point> seal_time;
  std::optional<std::chrono::system_clock::time_point> publish_time;
  std::optional<std::chrono::system_clock::time_point> abort_time;
  std::optional<SealReason> seal_reason;
  // Set while the round is OPEN and its policy has an end: the latest time at which it closes.
  std::optional<std::chrono::system_clock::time_point> close_time;
  std::optional<std::chrono::milliseconds> time_left;
  bool goal_reached = false;
  uint64_t contributors = 0;
  uint64_t bytes_received = 0;
  std::vector<TensorStatus> tensors;
  std::optional<Manifest> manifest;
  std::optional<DividedResult> divided;  // of a root with owners, from the seal on
  std::string failure;
  // ABORTED, but not in the store, which has its updates: the next start of the server may restore
  // it.
  bool may_be_restored = false;
  bool may_open_again = false;  // and it is open there
  // Why the round does not go on, such as STORE_FULL; it goes on by itself. OK while nothing
  // stops it.
  absl::Status stall;
  uint64_t revision = 0;
  StoreEpoch epoch;
  LeafStart start;
};

// A published result. It is immutable and shared by all readers; a reader may keep it after its
// round is deleted. Its memory stays reserved until the last reader releases it.
class PartReader;  // result/part_reader.h

struct PublishedResult {
  RoundSpec spec;
  std::vector<SparseTensor> tensors;  // in the order of spec.tensors; none if publish_partial
  std::string partial;                // the bytes of partial/round_partial.h, if publish_partial
  // Shape and type of each result; they differ from spec.tensors for "count".
  std::vector<TensorSpec> result_specs;
  Manifest manifest;
  // Reads the rows of a divided result (manifest.parts), of which `tensors` has none.
  std::shared_ptr<PartReader> parts;
};

// The outcome of computing a published round again from its stored updates, with the same bits.
struct Verification {
  uint64_t contributors = 0;
  uint64_t bytes_read = 0;
  std::string updates_digest;
  std::string result_digest;
  std::string backend;
};

struct CreateRoundArgs {
  std::string round_id;    // empty: generated
  std::string request_id;  // scoped to the tenant; empty: not idempotent
  RoundSpec spec;
  std::string tenant{kDefaultTenant};
  uint64_t tenant_rounds_max = 0;  // set by the engine
};

// The engine's usage at one moment; Engine::limits() has the bounds.
struct EngineStats {
  std::map<RoundState, uint64_t> rounds;
  uint64_t staged_bytes = 0;
  uint64_t aggregation_bytes = 0;
  uint64_t aggregation_bytes_max = 0;
  uint64_t upload_disk_bytes = 0;
  uint64_t open_uploads = 0;
  uint64_t waiting_tasks = 0;             // folds and publications that have not started
  std::vector<DeviceStats> devices = {};  // of the back end
  std::vector<LeafStatus> leaves = {};    // of a root, as configured
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_TYPES_H_
