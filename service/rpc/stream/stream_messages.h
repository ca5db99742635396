// What the messages of StreamUpdates do: whole updates are counted, those in chunks are begun,
// go on and are finished; each is answered. The stream (stream_updates.cc) says when, and sends the
// answers.
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
#include "service/rpc/gate.h"
#include "service/rpc/stream/answer_queue.h"
#include "service/rpc/stream/stream_uploads.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/refused_updates.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// A stream, for what its messages do.
class MessageStream {
 public:
  // From whoever handles messages, and from a job.
  virtual void Answer(v1::StreamUpdatesResponse answer, AnswerQueue::When when) = 0;
  virtual void AnswerFromJob(v1::StreamUpdatesResponse answer, AnswerQueue::When when) = 0;

  // Runs `job` on another thread. The stream lives until it is done, and reads on if it may.
  // `bytes`: what the job keeps.
  virtual void RunJob(Background& background, uint64_t bytes, std::function<void()> job) = 0;

  // Runs `handle` before the next message is handled. When it waits for the disk, on another
  // thread, which goes on with the messages then: false.
  virtual bool RunInTurn(bool waits_for_disk, std::function<void()> handle) = 0;

 protected:
  ~MessageStream() = default;
};

// For one thread at a time; its jobs run on others. Chunked updates are finished in `background`,
// updates of durable rounds counted in `commits`. All arguments must outlive it and its jobs.
class StreamMessages {
 public:
  StreamMessages(const AdmittedCall& admitted, Background& background, Background& commits,
                 MessageStream& stream);

  // `message` was read from `bytes`. False: see RunInTurn().
  bool Handle(MessageBytes bytes, ReceivedStreamMessage message);

  // Whether updates in chunks are under way.
  bool uploading() const { return !uploads_.empty(); }
  // Ends all of them; further chunks that come of them are not answered.
  void RefuseUploads(const absl::Status& why);
  // No more messages come: says what the updates that are under way lack.
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
              AnswerQueue::When when = AnswerQueue::kAtOnce);

  const AdmittedCall& admitted_;
  Engine& engine_;  // of the caller's tenant
  Background& background_;
  Background& commits_;
  MessageStream& stream_;
  StreamUploads uploads_;
  RefusedUpdates refused_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_STREAM_MESSAGES_H_
