// Handles the messages of StreamUpdates: submits whole updates, begins, continues and finishes
// chunked ones, and answers each. The stream (stream_updates.cc) decides when a message is handled,
// and sends the answers.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_STREAM_MESSAGES_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_STREAM_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/rpc/background.h"
#include "service/rpc/call_authoriser.h"
#include "service/rpc/stream/response_queue.h"
#include "service/rpc/stream/stream_uploads.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/refused_updates.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// What StreamMessages needs of its stream.
class MessageStream {
 public:
  // Queues an answer. Answer() is for the thread that handles messages, AnswerFromJob() for jobs.
  virtual void Answer(v1::StreamUpdatesResponse answer, ResponseQueue::When when) = 0;
  virtual void AnswerFromJob(v1::StreamUpdatesResponse answer, ResponseQueue::When when) = 0;

  // Runs `job` on a thread of `background`. The stream stays alive until it has ended, and keeps
  // reading within its limits. `bytes` is the memory that the job holds.
  virtual void RunJob(Background& background, uint64_t bytes, std::function<void()> job) = 0;

  // Runs `handle` before the next message is handled. If `waits_for_disk`, it runs on another
  // thread, which then handles the messages that follow, and RunInTurn() returns false.
  virtual bool RunInTurn(bool waits_for_disk, std::function<void()> handle) = 0;

 protected:
  ~MessageStream() = default;
};

// For one thread at a time; its jobs run on others: `background` finishes chunked updates,
// `commits` submits updates of durable rounds. All arguments must outlive it and its jobs.
class StreamMessages {
 public:
  StreamMessages(const AuthorisedCall& call, Background& background, Background& commits,
                 MessageStream& stream);

  // Handles `message`, which was parsed from `bytes`. Returns false if another thread continues
  // (RunInTurn()).
  bool Handle(MessageBytes bytes, ReceivedStreamMessage message);

  // Whether chunked updates are in progress.
  bool uploading() const { return !uploads_.empty(); }
  // Ends all chunked updates with the error `why`; their later chunks are ignored.
  void RefuseUploads(const absl::Status& why);
  // The client sends no more messages: answers each unfinished update with an error that says what
  // is missing.
  void End();

 private:
  void HandleWhole(MessageBytes bytes, ReceivedBatch updates);
  absl::StatusOr<Receipt> Submit(const ReceivedUpdate& update);
  void HandleBegin(const v1::BeginUpdate& message);
  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const v1::BeginUpdate& message);
  void HandleChunk(const ReceivedChunk& chunk);
  void Finish(const std::string& round, const std::string& update_id,
              std::shared_ptr<Upload> upload);
  void Refuse(const std::string& update_id, const absl::Status& error);
  void Answer(const std::string& update_id, absl::StatusOr<Receipt> outcome,
              ResponseQueue::When when = ResponseQueue::kAtOnce);

  const AuthorisedCall& call_;
  Engine& engine_;  // of the caller's tenant
  Background& background_;
  Background& commits_;
  MessageStream& stream_;
  StreamUploads uploads_;
  RefusedUpdates refused_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_STREAM_MESSAGES_H_
