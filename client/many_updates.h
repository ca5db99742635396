// Small updates that travel together: whole ones over one StreamUpdates call, in batches of about
// 64 KiB. Each has its own answer; what is not answered when the call breaks is sent again. Where a
// connection broke before any answer came, less is sent before the next answer: so every one that
// carries something gets on.
#ifndef SPARSEAGG_CLIENT_MANY_UPDATES_H_
#define SPARSEAGG_CLIENT_MANY_UPDATES_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/transport/call.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::client {

// `updates` must outlive it. One thread.
class ManyUpdates {
 public:
  // Updates of more than `bytes_max` of payload do not go this way.
  ManyUpdates(std::string round, std::span<const Update> updates, bool server_unpacks,
              uint64_t bytes_max);

  // Some are neither answered nor of those that go another way.
  bool under_way() const { return answered_ < updates_.size(); }
  size_t answered() const { return answered_; }

  // One call, which sends those that are under way. OK: it ended well. Otherwise why there are some
  // still: the connection broke, or the server asks to come again.
  absl::Status SendOnce(v1::AggregationService::StubInterface& stub, const Caller& caller,
                        uint64_t timeout_ms);
  // `why` is the outcome of all that are under way.
  void GiveUp(const absl::Status& why);

  // By position, once nothing is under way; empty: this one has to be sent by itself, as it is
  // large, or has the update_id of another one, whose answers name nothing else.
  std::vector<std::optional<absl::StatusOr<Receipt>>> TakeOutcomes() {
    return std::move(outcomes_);
  }

 private:
  using Stream =
      grpc::ClientReaderWriterInterface<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>;

  void SendAll(Stream& stream);
  // After a batch, if need be: until all that was sent is answered, or no more answers come.
  void WaitForAnswers();
  // The update's message, unless it has its outcome now, or goes another way.
  std::optional<v1::SubmitUpdateRequest> RequestOf(size_t i);
  void Take(const v1::StreamUpdatesResponse& answer);
  void Settle(size_t i, std::optional<absl::StatusOr<Receipt>> outcome);

  const std::string round_;
  const std::span<const Update> updates_;
  const bool server_unpacks_;
  const uint64_t bytes_max_;

  size_t batch_bytes_ = size_t{64} << 10;
  bool one_by_one_ = false;  // each batch waits for the answers to the one before

  std::mutex mutex_;  // a call is read by a thread of its own
  std::condition_variable answers_came_;
  size_t unanswered_ = 0;  // of what this call sent
  bool ended_ = false;     // no more answers come
  std::map<std::string, size_t> by_id_;
  std::vector<std::vector<TensorEncoding>> encodings_;
  std::vector<std::optional<absl::StatusOr<Receipt>>> outcomes_;
  std::vector<bool> settled_;
  size_t answered_ = 0;
  absl::Status refused_;  // by the last call, for all of them or until later
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_MANY_UPDATES_H_
