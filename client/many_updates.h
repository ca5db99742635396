// Sends small updates together: whole ones over one StreamUpdates call, in batches of about 64 KiB.
// Each update has its own answer; unanswered ones are sent again after the call breaks. If a
// connection broke before any answer came, smaller amounts are sent between answers, so that even a
// poor connection makes progress.
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
  // Updates with more than `bytes_max` payload bytes are left to the caller (TakeOutcomes()).
  ManyUpdates(std::string round, std::span<const Update> updates, bool server_knows_packed,
              uint64_t bytes_max);

  // Returns whether some updates are neither answered nor left to the caller.
  bool under_way() const { return answered_ < updates_.size(); }
  size_t answered() const { return answered_; }

  // Makes one call, which sends the unanswered updates. Returns OK if the call ended well,
  // otherwise why some are unanswered: the connection broke, or the server sent a retry hint.
  absl::Status SendOnce(v1::AggregationService::StubInterface& stub, const Caller& caller,
                        uint64_t timeout_ms);
  // Sets `why` as the outcome of all unanswered updates.
  void GiveUp(const absl::Status& why);

  // Returns the outcomes by position. nullopt: the caller has to send this update by itself,
  // because it is large or has the update_id of another one, and answers identify an update by its
  // update_id only. REQUIRES: !under_way().
  std::vector<std::optional<absl::StatusOr<Receipt>>> TakeOutcomes() {
    return std::move(outcomes_);
  }

 private:
  using Stream =
      grpc::ClientReaderWriterInterface<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>;

  void SendAll(Stream& stream);
  // Waits until every update sent is answered, or no more answers come.
  void WaitForAnswers();
  // The update's message; nullopt if it has an outcome or is left to the caller.
  std::optional<v1::SubmitUpdateRequest> RequestOf(size_t i);
  void HandleAnswer(const v1::StreamUpdatesResponse& answer);
  void Settle(size_t i, std::optional<absl::StatusOr<Receipt>> outcome);

  const std::string round_;
  const std::span<const Update> updates_;
  const bool server_knows_packed_;
  const uint64_t bytes_max_;

  size_t batch_bytes_ = size_t{64} << 10;
  bool one_by_one_ = false;  // each batch is sent after the answers to the one before

  std::mutex mutex_;  // because a thread of its own reads the answers
  std::condition_variable answers_came_;
  size_t unanswered_ = 0;  // updates that this call sent
  bool ended_ = false;     // no more answers come
  std::map<std::string, size_t> by_id_;
  std::vector<std::vector<TensorEncoding>> encodings_;
  std::vector<std::optional<absl::StatusOr<Receipt>>> outcomes_;
  std::vector<bool> settled_;
  size_t answered_ = 0;
  absl::Status refused_;  // error of the last call for all updates
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_MANY_UPDATES_H_
