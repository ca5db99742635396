// The client of a sparseagg server. Start here:
//
//   auto client = Client::Connect("127.0.0.1:50061");
//   auto round = (*client)->CreateRound({.tensors = {{"emb", ValueType::kF32, {1000, 64}, 1}}});
//   (*client)->Submit(round->name, {.contributor = "phone-7", .tensors = {tensor.view()}});
//   (*client)->Seal(round->name);
//   (*client)->Wait(round->name);
//   auto result = (*client)->Pull(round->name);
//
// Errors are absl::Status: ErrorReason() (base/status.h) gives the stable reason that docs/api.md
// lists, RetryAfterMs() a hint of the server. The library itself adds, where no server answered
// (UNAVAILABLE; the message says who did, and what to do):
//
//   CANNOT_CONNECT, CONNECTION_LOST  nobody is there, or not any more
//   CONNECTION_CLOSED         before anything was said: as TLS without the certificate that the
//                             server asks for
//   PROXY_UNAVAILABLE, PROXY_REFUSED  the HTTP proxy of the environment (http_proxy)
//   INTERMEDIARY_UNAVAILABLE, INTERMEDIARY_REFUSED  a reverse proxy, with a status of its own
//   NOT_GRPC                  something that speaks HTTP/1, or TLS without HTTP/2
//   SERVER_NOT_TRUSTED, SERVER_HAS_OTHER_NAME, SERVER_WITHOUT_TLS, SERVER_WITH_TLS
//
// and NO_ANSWER_IN_TIME (DEADLINE_EXCEEDED), ROUND_LOST (NOT_FOUND: a round that this client used
// went with the server's memory, or its data) and CLIENT_FORKED (FAILED_PRECONDITION: a client, or
// a new one, in a child that was forked from a process with a client; fork before, or start a
// program). Calls that failed for lack of a connection, or with a hint to try again, are repeated
// by RetryPolicy; PROXY_REFUSED, INTERMEDIARY_REFUSED, NOT_GRPC and SERVER_... do not pass by
// themselves, and are not. Every call is safe to repeat: creation by request_id, submission by
// update_id.
#ifndef SPARSEAGG_CLIENT_CLIENT_H_
#define SPARSEAGG_CLIENT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/types.h"

namespace sparseagg::client {

// Waits first_delay_ms, then twice as long each time up to delay_ms_max, a random half of it taken
// off; never shorter than the server's hint, and not beyond the time that the call has.
struct RetryPolicy {
  // Of a call that finds no server (UNAVAILABLE), the first included, without progress in between;
  // 0: as many as the time of the call allows; 1 repeats nothing at all.
  uint32_t attempts_max = 0;
  uint64_t first_delay_ms = 100;
  uint64_t delay_ms_max = 5000;
  // How long a call goes on, however often, while the server answers that it is busy and when to
  // come back (RetryInfo), if it has that time.
  uint64_t busy_ms_max = 60'000;
};

// Files in PEM.
struct TlsOptions {
  std::string
      authority_file;  // who signs the server's certificate; empty: the system's authorities
  std::string certificate_file;  // of the client, where the server asks for one
  std::string key_file;
};

struct ClientOptions {
  std::optional<TlsOptions> tls;  // unset: plaintext
  // The bearer token, asked for before every call, so that it can be renewed; unset: none. Over
  // plaintext only to this machine. One that is not printable ASCII is INVALID_ARGUMENT
  // (TOKEN_INVALID).
  std::function<absl::StatusOr<std::string>()> token;
  // Of a call, with all its attempts; 0: without an end. Submit, Pull, Reduce and Verify go on
  // without a server for so long since they last got further, and end after the second one.
  uint64_t call_timeout_ms = 30'000;
  uint64_t transfer_timeout_ms = 3'600'000;
  RetryPolicy retry;
  // An update of more payload bytes travels in chunks and resumes where a connection broke. Below
  // the 16 MiB that a server takes in one message by default.
  uint64_t unary_bytes_max = uint64_t{4} << 20;
  uint64_t chunk_bytes = uint64_t{1} << 20;  // best of 64 KiB to 4 MiB by measurement
  // Updates that are sent in chunks at the same time share up to so many connections.
  uint32_t connections_max = 4;
  uint64_t result_bytes_max = uint64_t{64} << 30;  // largest aggregate that is accepted
  std::function<void(uint64_t ms)> sleep;          // unset: the thread sleeps
  // Told why an attempt failed that will be repeated, before the wait, from the calling thread.
  std::function<void(const absl::Status& why)> on_retry;
};

// Called with what is done of a transfer, in bytes of payload, from the calling thread. After a
// broken connection `done` may step back to what the server holds.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

// Restricts one tensor of the answer to some rows (flattened: FlattenIndex()).
struct Selection {
  std::string tensor;
  std::vector<uint64_t> rows;
};

struct PullOptions {
  std::vector<std::string> tensors;  // empty: all of the round
  std::vector<Selection> selections;
  // All values, absent ones 0, instead of the touched entries; with a selection, one row for each
  // selected index, in its order. At most 2^31 values a tensor.
  bool dense = false;
  // What indices travel as: a name of AllEncodings(), or "auto": as bits where the server knows
  // how.
  std::string encoding = "auto";
  Progress progress;
};

struct ReduceRequest {
  std::vector<TensorSpec> tensors;
  uint64_t num_updates = 0;
  // Gives update `i`; its tensors must live until the next call. Called in order, and again from 0
  // when the whole is repeated after a lost connection.
  std::function<absl::StatusOr<Update>(uint64_t i)> update;
  bool dense = false;
  Progress progress;  // of the answer
};

// Thread-safe. Round names are "rounds/{id}" or just "{id}".
class Client {
 public:
  // `target` is HOST:PORT, or one of the other forms that client/transport/address.h lists. Does
  // not connect yet: the first call does. INVALID_ARGUMENT: INVALID_TARGET, TOKEN_NEEDS_TLS.
  // FAILED_PRECONDITION: FILE_UNREADABLE and TLS_FILE_INVALID, for a file of options.tls.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target,
                                                         ClientOptions options = {});
  ~Client();

  absl::StatusOr<RoundInfo> CreateRound(const NewRound& round);
  absl::StatusOr<RoundInfo> GetRound(const std::string& round);
  // All rounds, by name, ascending.
  absl::StatusOr<std::vector<RoundInfo>> ListRounds();
  // Fixes the accepted updates; returns before the result is there.
  absl::StatusOr<RoundInfo> Seal(const std::string& round);
  absl::StatusOr<RoundInfo> Abort(const std::string& round);
  absl::Status Delete(const std::string& round);

  // Calls `on_change` now and after every change until the round is in a final state (OK) or
  // `on_change` returns false (OK). Goes on without a server, however long, unless
  // RetryPolicy::attempts_max says how often.
  absl::Status Watch(const std::string& round,
                     const std::function<bool(const RoundInfo&)>& on_change);

  // Waits until the round is published. ABORTED (ROUND_ABORTED) when it was given up or failed,
  // DEADLINE_EXCEEDED (NO_ANSWER_IN_TIME) after `timeout_ms`; 0 waits without an end, and without
  // a server as Watch() does.
  absl::StatusOr<RoundInfo> Wait(const std::string& round, uint64_t timeout_ms = 0);

  // Sends one update, whole or in chunks by its size. An OK answer is a receipt: counted exactly
  // once, also when this call had to repeat itself.
  absl::StatusOr<Receipt> Submit(const std::string& round, const Update& update,
                                 const Progress& progress = {});

  // Sends many updates of one round; the outcome of each, in their order. Small ones go together,
  // which takes a part of the time that Submit() takes for each. One that is refused does not stop
  // the others. An update_id that is not given is that of the content (ContentUpdateId()): of equal
  // updates only the first goes with the others.
  std::vector<absl::StatusOr<Receipt>> SubmitMany(const std::string& round,
                                                  std::span<const Update> updates);

  absl::StatusOr<Result> Pull(const std::string& round, const PullOptions& options = {});

  // The stateless operator: sums updates without a round.
  absl::StatusOr<Result> Reduce(const ReduceRequest& request);
  absl::StatusOr<Result> Reduce(const std::vector<TensorSpec>& tensors,
                                std::span<const Update> updates);

  // Computes a published round again from the updates that it kept and compares every bit.
  // DATA_LOSS (RESULT_MISMATCH); FAILED_PRECONDITION (UPDATES_NOT_KEPT).
  absl::StatusOr<Verification> Verify(const std::string& round);

  absl::StatusOr<ServerInfo> Info();

  // The address as it is connected to, with its port.
  const std::string& target() const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The update_id that Submit() takes when the update has none: hexadecimal, of weight, tensors, and
// what they are asked to travel as.
absl::StatusOr<std::string> ContentUpdateId(const Update& update);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_CLIENT_H_
