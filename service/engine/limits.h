// Limits of the engine, which are checked before memory is taken. Each field is one configuration
// flag, one line of GetServerInfo and one number in an error message (service/config/config.cc has
// the table).
#ifndef SPARSEAGG_SERVICE_ENGINE_LIMITS_H_
#define SPARSEAGG_SERVICE_ENGINE_LIMITS_H_

#include <cstdint>

namespace sparseagg {

// The largest valid round_tensors_max: a message with that many tensors takes about as much memory
// as it has bytes.
inline constexpr uint64_t kRoundTensorsMax = 65'536;

struct Limits {
  uint64_t message_bytes_max = uint64_t{16} << 20;  // one gRPC message
  uint64_t update_bytes_max = uint64_t{4} << 30;    // payload of one update
  uint64_t update_nnz_max = uint64_t{1} << 31;      // entries of one tensor of one update
  // Updates of all rounds that are received and not yet folded.
  uint64_t staging_bytes_max = uint64_t{4} << 30;
  // Memory that rounds hold: accumulators, entries not yet reduced, results. 0: the memory of the
  // back end.
  uint64_t aggregation_bytes_max = 0;
  uint64_t round_tensors_max = 1024;            // tensors of one round
  uint64_t rounds_max = 1000;                   // rounds that exist at a time, in any state
  uint64_t result_nnz_max = uint64_t{1} << 34;  // entries of one tensor of one result
  uint64_t open_uploads_max = 16384;            // uploads in progress
  // Bytes on disk of chunked uploads in progress, durable rounds only.
  uint64_t upload_disk_bytes_max = uint64_t{64} << 30;
  // An upload is kept for this time without another byte, and a stream without a message.
  uint64_t upload_idle_ms = 600'000;
  uint64_t stream_idle_ms = 600'000;
  // Lowest rate of an upload in bytes per second, averaged over the window. Only time in which the
  // server waits for the client counts. 0: no limit.
  uint64_t upload_rate_min = 1024;
  uint64_t upload_rate_window_ms = 60'000;
  uint64_t dense_result_bytes_max = uint64_t{64} << 30;  // one dense answer of GetAggregate
  // A result can be fetched for this time after its publication; an aborted round is kept as long.
  // 0: until the round is deleted.
  uint64_t result_retention_ms = 0;
  // Limits of one tenant. 0: only the limits of the whole server apply.
  uint64_t tenant_rounds_max = 0;       // rounds that exist at a time
  uint64_t tenant_bytes_max = 0;        // staging and aggregation together
  uint64_t tenant_streams_max = 0;      // StreamUpdates calls in progress
  uint64_t tenant_uploads_max = 0;      // uploads to rounds in progress
  uint64_t tenant_waits_max = 100'000;  // WaitRound and WatchRound calls in progress
  // The longest time that a round may be open. 0: until it is sealed.
  uint64_t round_open_ms_max = 0;
  // The name of a deleted round is remembered for this time, so that late retries of its updates
  // are recognised and cannot count in another round. 0: not at all.
  uint64_t retry_horizon_ms = uint64_t{7} * 24 * 3600 * 1000;
  // Free bytes that the disk of the data directory keeps for sealing and publishing.
  uint64_t store_free_bytes_min = uint64_t{256} << 20;
};

// Returns limits for reading updates that were accepted before, whatever the limits are today.
inline Limits WithoutLimits() {
  constexpr uint64_t kUnlimited = ~uint64_t{0};
  Limits limits;
  limits.update_bytes_max = kUnlimited;
  limits.update_nnz_max = kUnlimited;
  limits.round_tensors_max = kUnlimited;
  limits.result_nnz_max = kUnlimited;
  return limits;
}

// The limits of one tenant: from its own configuration, or the defaults in Limits.
struct TenantLimits {
  uint64_t rounds_max = 0;
  uint64_t bytes_max = 0;
  uint64_t streams_max = 0;
  uint64_t uploads_max = 0;
  uint64_t waits_max = 0;
};
inline TenantLimits DefaultTenantLimits(const Limits& limits) {
  return {limits.tenant_rounds_max, limits.tenant_bytes_max, limits.tenant_streams_max,
          limits.tenant_uploads_max, limits.tenant_waits_max};
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_LIMITS_H_
