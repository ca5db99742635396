// The client of a sparseagg server. Start here:
//
//   auto client = Client::Connect("127.0.0.1:50061");
//   auto round = (*client)->CreateRound({.tensors = {{"emb", ValueType::kF32, {1000, 64}, 1}}});
//   (*client)->Submit(round->name, {.contributor = "phone-7", .tensors = {tensor.view()}});
//   (*client)->Seal(round->name);
//   (*client)->Wait(round->name);
//   auto result = (*client)->Pull(round->name);
//
// Errors are absl::Status: ErrorReason() (base/status.h) returns the stable reason, which
// docs/api.md lists, and RetryAfterMs() the server's retry hint. The library adds these reasons for
// calls that no sparseagg server answered (UNAVAILABLE; the message says what answered instead, and
// what to do):
//
//   CANNOT_CONNECT            there is no server at the address
//   CONNECTION_LOST           the connection broke during the call
//   CONNECTION_CLOSED         the server closed the connection before it answered, as it does if a
//                             required client certificate is missing
//   PROXY_UNAVAILABLE, PROXY_REFUSED
//                             the HTTP proxy of the environment (http_proxy) failed or refused
//   INTERMEDIARY_UNAVAILABLE, INTERMEDIARY_REFUSED
//                             a reverse proxy answered in place of the server
//   NOT_GRPC                  the peer speaks HTTP/1, or TLS without HTTP/2
//   SERVER_NOT_TRUSTED, SERVER_HAS_OTHER_NAME, SERVER_WITHOUT_TLS, SERVER_WITH_TLS
//                             TLS failed
//
// and these: NO_ANSWER_IN_TIME (DEADLINE_EXCEEDED); ROUND_LOST (NOT_FOUND): the server has lost a
// round that this client used, with its memory or its data; CLIENT_FORKED (FAILED_PRECONDITION): a
// client was used or made in a child process of a process with a client. Fork before the first
// client is made, or execute a new program. Calls that failed for lack of a connection, or with a
// retry hint, are repeated as RetryPolicy says. PROXY_REFUSED, INTERMEDIARY_REFUSED, NOT_GRPC and
// SERVER_... need someone to act and are not repeated. Every call is safe to repeat: creation by
// request_id, submission by update_id.
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

// Exponential backoff with jitter: the delay starts at first_delay_ms and doubles up to
// delay_ms_max; a random share of up to half is subtracted. It is never shorter than the server's
// hint, and never exceeds the time that the call has left.
struct RetryPolicy {
  // The most attempts of a call in a row without a server (UNAVAILABLE) and without progress, the
  // first included. 0: as many as the time of the call allows; 1: no call is ever repeated.
  uint32_t attempts_max = 0;
  uint64_t first_delay_ms = 100;
  uint64_t delay_ms_max = 5000;
  // How long a call is repeated, any number of times, while the server answers that it is busy
  // (with RetryInfo). The call's own limit applies, too.
  uint64_t busy_ms_max = 60'000;
};

// Paths of PEM files.
struct TlsOptions {
  std::string authority_file;    // CA of the server's certificate; empty: the system's CAs
  std::string certificate_file;  // of the client, if the server requests one
  std::string key_file;
};

struct ClientOptions {
  std::optional<TlsOptions> tls;  // unset: plaintext
  // Returns the bearer token. Called before every call, so that the token can be renewed; unset: no
  // token. Over plaintext it is sent to this machine only. A token that is not printable ASCII
  // gives INVALID_ARGUMENT (TOKEN_INVALID).
  std::function<absl::StatusOr<std::string>()> token;
  // The limit of a call with all its attempts; 0: no limit. Submit, Pull, Reduce and Verify have
  // the limit transfer_timeout_ms instead, and give up when there was no server for call_timeout_ms
  // since their last progress.
  uint64_t call_timeout_ms = 30'000;
  uint64_t transfer_timeout_ms = 3'600'000;
  RetryPolicy retry;
  // An update with more payload bytes is sent in chunks, and resumes where a connection broke. The
  // default is below the 16 MiB that a server accepts in one message by default.
  uint64_t unary_bytes_max = uint64_t{4} << 20;
  uint64_t chunk_bytes = uint64_t{1} << 20;  // best of 64 KiB to 4 MiB by measurement
  // The most connections that concurrent chunked updates share.
  uint32_t connections_max = 4;
  uint64_t result_bytes_max = uint64_t{64} << 30;  // the largest result that is accepted
  std::function<void(uint64_t ms)> sleep;          // unset: the calling thread sleeps
  // Called with the error of an attempt that will be repeated, before the wait, on the calling
  // thread.
  std::function<void(const absl::Status& why)> on_retry;
};

// Called on the calling thread with the progress of a transfer, in payload bytes. After a broken
// connection `done` may go back to what the server has.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

// Restricts one tensor of the result to some rows (flattened: FlattenIndex()).
struct Selection {
  std::string tensor;
  std::vector<uint64_t> rows;
};

struct PullOptions {
  std::vector<std::string> tensors;  // empty: all of the round
  std::vector<Selection> selections;
  // Returns all values, with 0 for absent rows, instead of the entries; with a selection, one row
  // for each selected index, in its order. At most 2^31 values per tensor.
  bool dense = false;
  // The encoding of indices: a name of AllEncodings(), or "auto": coo.packed if the server knows
  // it.
  std::string encoding = "auto";
  Progress progress;
};

struct ReduceRequest {
  std::vector<TensorSpec> tensors;
  uint64_t num_updates = 0;
  // Returns update `i`, whose tensors must stay valid until the next call. Called in order, and
  // again from 0 when the call is repeated after a lost connection.
  std::function<absl::StatusOr<Update>(uint64_t i)> update;
  bool dense = false;
  Progress progress;  // of the result
};

// Thread-safe. Round names are "rounds/{id}" or just "{id}".
class Client {
 public:
  // `target` is HOST:PORT, or one of the other forms that client/transport/address.h lists. Does
  // not connect; the first call does. INVALID_ARGUMENT: INVALID_TARGET, TOKEN_NEEDS_TLS.
  // FAILED_PRECONDITION: FILE_UNREADABLE and TLS_FILE_INVALID, for a file of options.tls.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target,
                                                         ClientOptions options = {});
  ~Client();

  absl::StatusOr<RoundInfo> CreateRound(const NewRound& round);
  absl::StatusOr<RoundInfo> GetRound(const std::string& round);
  // All rounds, in ascending order of their names.
  absl::StatusOr<std::vector<RoundInfo>> ListRounds();
  // Fixes the accepted updates. Returns before the result is published.
  absl::StatusOr<RoundInfo> Seal(const std::string& round);
  absl::StatusOr<RoundInfo> Abort(const std::string& round);
  absl::Status Delete(const std::string& round);

  // Calls `on_change` now and after every change. Returns OK when the round is in a final state or
  // `on_change` returns false. While there is no server it retries without limit, unless
  // RetryPolicy::attempts_max is set.
  absl::Status Watch(const std::string& round,
                     const std::function<bool(const RoundInfo&)>& on_change);

  // Waits until the round is published. ABORTED (ROUND_ABORTED) if it was aborted or failed,
  // DEADLINE_EXCEEDED (NO_ANSWER_IN_TIME) after `timeout_ms` (0: no limit). Retries without a
  // server as Watch() does.
  absl::StatusOr<RoundInfo> Wait(const std::string& round, uint64_t timeout_ms = 0);

  // Sends one update, whole or in chunks by its size; if the round has leaves, to the
  // contributor's. On OK the update is counted exactly once, even if attempts were repeated.
  absl::StatusOr<Receipt> Submit(const std::string& round, const Update& update,
                                 const Progress& progress = {});

  // Sends many updates of one round, and returns the outcome of each, in their order. Small updates
  // are sent together, which is faster than a Submit() for each. A refused update does not stop the
  // others. An update without an update_id gets that of its content (ContentUpdateId()); of equal
  // updates only the first is sent with the others.
  std::vector<absl::StatusOr<Receipt>> SubmitMany(const std::string& round,
                                                  std::span<const Update> updates);

  // Returns the partial aggregate of a published round that was created with publish_partial.
  // FAILED_PRECONDITION: ROUND_NOT_PUBLISHED, RESULT_NOT_PARTIAL.
  absl::StatusOr<PartialBytes> GetPartial(const std::string& round, const Progress& progress = {});
  // Counts all updates that a partial aggregate covers, or none. `node`: the sender, as the
  // contributor of an update. `update_id`: "": made of the content, so that a resend is recognised.
  // Sent whole or in chunks by its size.
  absl::StatusOr<Receipt> SubmitPartial(const std::string& round, const std::string& node,
                                        const std::string& partial,
                                        const std::string& update_id = "",
                                        const Progress& progress = {});

  absl::StatusOr<Result> Pull(const std::string& round, const PullOptions& options = {});

  // The stateless operator: sums updates without a round.
  absl::StatusOr<Result> Reduce(const ReduceRequest& request);
  absl::StatusOr<Result> Reduce(const std::vector<TensorSpec>& tensors,
                                std::span<const Update> updates);

  // Computes a published round again from the updates that it kept and compares every bit.
  // DATA_LOSS (RESULT_MISMATCH); FAILED_PRECONDITION (UPDATES_NOT_KEPT).
  absl::StatusOr<Verification> Verify(const std::string& round);

  absl::StatusOr<ServerInfo> Info();

  // The address of the connection, with its port.
  const std::string& target() const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The update_id that Submit() uses if the update has none: a hexadecimal digest of weight, tensors
// and requested encodings.
absl::StatusOr<std::string> ContentUpdateId(const Update& update);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_CLIENT_H_
