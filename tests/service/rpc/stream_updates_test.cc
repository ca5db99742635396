#include "service/rpc/stream/stream_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/error_details.h"
#include "proto/limits.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

using testing::ChunkedUpdate;
using ::testing::HasSubstr;
using testing::VectorEntries;
using testing::VectorUpdate;

// One stream of a client.
class UpdateStream {
 public:
  explicit UpdateStream(testing::TestClient& client)
      : stream_(client.stub().StreamUpdates(context_.get())) {}

  void Send(const v1::SubmitUpdateRequest& update, bool takes_more = false) {
    v1::StreamUpdatesRequest message;
    *message.mutable_update() = update;
    message.set_takes_more(takes_more);
    EXPECT_TRUE(stream_->Write(message));
  }
  void Send(const v1::UpdateBatch& batch) {
    v1::StreamUpdatesRequest message;
    *message.mutable_batch() = batch;
    message.set_takes_more(true);
    EXPECT_TRUE(stream_->Write(message));
  }
  void Send(const v1::BeginUpdate& begin) {
    v1::StreamUpdatesRequest message;
    *message.mutable_begin() = begin;
    EXPECT_TRUE(stream_->Write(message));
  }
  void Send(const v1::UpdateChunk& chunk) {
    v1::StreamUpdatesRequest message;
    *message.mutable_chunk() = chunk;
    EXPECT_TRUE(stream_->Write(message));
  }
  void SendEmptyMessage() { EXPECT_TRUE(stream_->Write(v1::StreamUpdatesRequest())); }

  bool Read(v1::StreamUpdatesResponse& response) { return stream_->Read(&response); }
  v1::StreamUpdatesResponse Receive() {
    v1::StreamUpdatesResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }

  // Closes the client's side, and returns the remaining answers and the status.
  std::vector<v1::StreamUpdatesResponse> CloseAndReceiveRest() {
    stream_->WritesDone();
    return ReceiveRest();
  }
  // Waits until the server ends the stream.
  std::vector<v1::StreamUpdatesResponse> ReceiveRest() {
    std::vector<v1::StreamUpdatesResponse> rest(1);
    while (stream_->Read(&rest.back())) rest.emplace_back();
    rest.pop_back();
    status_ = testing::FromGrpc(stream_->Finish());
    return rest;
  }
  const absl::Status& status() const { return status_; }

  void Cancel() {
    context_->TryCancel();
    status_ = testing::FromGrpc(stream_->Finish());
  }

 private:
  std::unique_ptr<grpc::ClientContext> context_ = testing::NewContext();
  std::unique_ptr<grpc::ClientReaderWriter<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>>
      stream_;
  absl::Status status_;
};

class StreamUpdatesTest : public testing::RpcTest {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Create(testing::VectorRound("t", 1000), "r").ok()); }

  static v1::SubmitUpdateRequest Update(const std::string& contributor,
                                        const std::vector<int64_t>& indices) {
    return VectorUpdate("rounds/r", contributor,
                        VectorEntries("t", 1000, indices, std::vector<float>(indices.size(), 1)));
  }
  uint64_t Counted() { return client_.Get("rounds/r")->contributors(); }
};

TEST_F(StreamUpdatesTest, AnswersEveryUpdateWithItsReceipt) {
  UpdateStream stream(client_);
  for (int i = 0; i < 300; ++i) stream.Send(Update(std::to_string(i), {i}));
  std::set<std::string> receipts;
  for (const auto& response : stream.CloseAndReceiveRest()) {
    EXPECT_TRUE(response.has_receipt()) << response.DebugString();
    receipts.insert(response.receipt().contributor());
  }
  EXPECT_TRUE(stream.status().ok()) << stream.status();
  EXPECT_EQ(receipts.size(), 300);
  EXPECT_EQ(Counted(), 300);
}

TEST_F(StreamUpdatesTest, AnswersTogetherToWhoTakesThem) {
  constexpr int kUpdates = 300;
  for (const bool takes_more : {true, false}) {
    UpdateStream stream(client_);
    for (int i = 0; i < kUpdates; ++i) {
      const std::string name = (takes_more ? "a-" : "b-") + std::to_string(i);
      // takes_more in the first message holds for the stream.
      stream.Send(Update(name, {i}), takes_more && i == 0);
    }
    const auto messages = stream.CloseAndReceiveRest();
    EXPECT_TRUE(stream.status().ok()) << stream.status();
    std::set<std::string> receipts;
    for (const auto& message : messages) {
      receipts.insert(message.receipt().contributor());
      for (const auto& other : message.more()) {
        receipts.insert(other.receipt().contributor());
        EXPECT_EQ(other.more_size(), 0);
      }
    }
    EXPECT_EQ(receipts.size(), kUpdates);
    if (takes_more) {
      EXPECT_LT(messages.size(), kUpdates);
    } else {
      EXPECT_EQ(messages.size(), kUpdates);
    }
  }
  EXPECT_EQ(Counted(), 2 * kUpdates);
}

// The answers of messages, by update_id.
std::multimap<std::string, v1::StreamUpdatesResponse> AnswersOf(
    const std::vector<v1::StreamUpdatesResponse>& messages) {
  std::multimap<std::string, v1::StreamUpdatesResponse> answers;
  for (const auto& message : messages) {
    answers.emplace(message.update_id(), message);
    for (const auto& other : message.more()) answers.emplace(other.update_id(), other);
  }
  return answers;
}

TEST_F(StreamUpdatesTest, UpdatesOfABatchAreAnsweredEachForItself) {
  v1::UpdateBatch batch;
  *batch.add_updates() = Update("a", {1});
  *batch.add_updates() = Update("bad", {1000});
  *batch.add_updates() = Update("b", {2});
  *batch.add_updates() = Update("a", {1});
  *batch.add_updates() = Update("lost", {1});
  batch.mutable_updates(4)->mutable_header()->set_round("rounds/none");
  UpdateStream stream(client_);
  stream.Send(batch);
  const auto answers = AnswersOf(stream.CloseAndReceiveRest());
  EXPECT_TRUE(stream.status().ok()) << stream.status();
  ASSERT_EQ(answers.size(), 5);
  EXPECT_EQ(answers.find("u-b")->second.receipt().contributor(), "b");
  EXPECT_EQ(answers.find("u-bad")->second.error().reason(), "INDEX_OUT_OF_RANGE");
  EXPECT_EQ(answers.find("u-lost")->second.error().reason(), "ROUND_NOT_FOUND");
  int duplicates = 0;
  const auto [first, last] = answers.equal_range("u-a");
  for (auto it = first; it != last; ++it) duplicates += it->second.receipt().duplicate() ? 1 : 0;
  EXPECT_EQ(duplicates, 1);
  EXPECT_EQ(Counted(), 2);
}

TEST_F(StreamUpdatesTest, ABatchOfTooManyUpdatesCountsNothing) {
  v1::UpdateBatch batch;
  for (uint64_t i = 0; i <= kBatchUpdatesMax; ++i) {
    *batch.add_updates() = Update(std::to_string(i), {1});
  }
  UpdateStream stream(client_);
  stream.Send(batch);
  const v1::StreamUpdatesResponse refused = stream.Receive();
  EXPECT_EQ(refused.error().reason(), "MALFORMED_MESSAGE");
  EXPECT_THAT(refused.error().message(), HasSubstr("1000 updates"));
  EXPECT_EQ(Counted(), 0);
  batch.mutable_updates()->RemoveLast();
  stream.Send(batch);
  EXPECT_EQ(AnswersOf(stream.CloseAndReceiveRest()).size(), kBatchUpdatesMax);
  EXPECT_EQ(Counted(), kBatchUpdatesMax);
}

// More answers than a stream queues: the server handles the rest as they are read. The messages are
// smaller than the flow-control window.
TEST_F(StreamUpdatesTest, BatchesWaitUntilTheirAnswersAreRead) {
  constexpr int kBatches = 20;
  v1::UpdateBatch empty;
  for (uint64_t i = 0; i < kBatchUpdatesMax; ++i) empty.add_updates();
  UpdateStream stream(client_);
  for (int i = 0; i < kBatches; ++i) stream.Send(empty);
  const auto answers = AnswersOf(stream.CloseAndReceiveRest());
  EXPECT_TRUE(stream.status().ok()) << stream.status();
  EXPECT_EQ(answers.size(), kBatches * kBatchUpdatesMax);
}

// gRPC could buffer all of their answers, and nothing else is sent.
TEST_F(StreamUpdatesTest, ShortStreamsComeToTheirEnd) {
  for (const int updates : {1, 2, 8, 9, 30, 62}) {
    for (const bool takes_more : {true, false}) {
      testing::TestClient client(testing::NewChannel(server_.address()));
      UpdateStream stream(client);
      for (int i = 0; i < updates; ++i) {
        const std::string name = absl::StrCat(updates, takes_more ? "-a-" : "-b-", i);
        stream.Send(Update(name, {i}), takes_more);
      }
      int answers = 0;
      for (const auto& message : stream.CloseAndReceiveRest()) answers += 1 + message.more_size();
      EXPECT_TRUE(stream.status().ok()) << updates << ": " << stream.status();
      EXPECT_EQ(answers, updates);
    }
  }
}

TEST_F(StreamUpdatesTest, AnErrorEndsItsUpdateAndNotTheStream) {
  UpdateStream stream(client_);
  stream.Send(Update("bad", {1000}));
  const v1::StreamUpdatesResponse refused = stream.Receive();
  EXPECT_EQ(refused.update_id(), "u-bad");
  EXPECT_EQ(refused.error().reason(), "INDEX_OUT_OF_RANGE");
  EXPECT_EQ(refused.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error().message(), HasSubstr("1000"));
  stream.Send(Update("good", {999}));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "good");
  stream.CloseAndReceiveRest();
  EXPECT_TRUE(stream.status().ok());
  EXPECT_EQ(Counted(), 1);
}

TEST_F(StreamUpdatesTest, AMessageWithoutBodyIsAnsweredWithAnError) {
  UpdateStream stream(client_);
  stream.SendEmptyMessage();
  EXPECT_EQ(stream.Receive().error().reason(), "EMPTY_MESSAGE");
}

TEST_F(StreamUpdatesTest, TakesAnUpdateInChunks) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3, 1, 2}));
  UpdateStream stream(client_);
  stream.Send(update.begin);
  EXPECT_EQ(stream.Receive().progress().committed_offset(), 0);
  for (size_t offset = 0; offset < update.bytes.size(); offset += 7) {
    stream.Send(testing::ChunkOf(update, offset, 7));
  }
  const v1::StreamUpdatesResponse last = stream.Receive();
  EXPECT_EQ(last.receipt().contributor(), "a") << last.DebugString();
  EXPECT_EQ(Counted(), 1);
}

TEST_F(StreamUpdatesTest, ChunksAndWholeUpdatesMayBeMixed) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3, 1, 2}));
  UpdateStream stream(client_);
  stream.Send(update.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  stream.Send(testing::ChunkOf(update, 0, 10));
  stream.Send(Update("b", {1}));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "b");
  stream.Send(testing::ChunkOf(update, 10, 1000));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "a");
}

TEST_F(StreamUpdatesTest, AnEmptyUpdateInChunksIsCountedAtOnce) {
  UpdateStream stream(client_);
  stream.Send(testing::Chunked(Update("a", {})).begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  EXPECT_TRUE(stream.Receive().has_receipt());
}

TEST_F(StreamUpdatesTest, ResumesOnAnotherConnectionAtTheOffsetThatTheServerHas) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3, 1, 2}));
  {
    UpdateStream broken(client_);
    broken.Send(update.begin);
    EXPECT_TRUE(broken.Receive().has_progress());
    broken.Send(testing::ChunkOf(update, 0, 10));
    broken.Send(Update("marker", {1}));  // its receipt shows that the chunk before it has arrived
    EXPECT_TRUE(broken.Receive().has_receipt());
    broken.Cancel();
  }
  testing::TestClient other(testing::NewChannel(server_.address()));
  UpdateStream stream(other);
  stream.Send(update.begin);
  const uint64_t offset = stream.Receive().progress().committed_offset();
  EXPECT_EQ(offset, 10);
  stream.Send(testing::ChunkOf(update, offset, 1000));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "a");
}

TEST_F(StreamUpdatesTest, BeginningACountedUpdateAgainAnswersTheFirstReceipt) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3}));
  ASSERT_TRUE(client_.Submit(Update("a", {3})).ok());
  UpdateStream stream(client_);
  stream.Send(update.begin);
  EXPECT_EQ(stream.Receive().progress().committed_offset(), update.bytes.size());
  const v1::StreamUpdatesResponse answer = stream.Receive();
  EXPECT_TRUE(answer.receipt().duplicate()) << answer.DebugString();
}

TEST_F(StreamUpdatesTest, OneWrongChunkGivesOneError) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3, 1, 2}));
  UpdateStream stream(client_);
  stream.Send(update.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  stream.Send(testing::ChunkOf(update, 5, 5));
  EXPECT_EQ(stream.Receive().error().reason(), "OFFSET_MISMATCH");
  stream.Send(testing::ChunkOf(update, 10, 5));  // was on its way
  stream.Send(Update("b", {1}));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "b");
  stream.Send(update.begin);
  EXPECT_EQ(stream.Receive().progress().committed_offset(), 0);
  stream.Send(testing::ChunkOf(update, 0, 1000));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "a");
}

TEST_F(StreamUpdatesTest, AWrongChecksumIsRefused) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3}));
  UpdateStream stream(client_);
  stream.Send(update.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  v1::UpdateChunk chunk = testing::ChunkOf(update, 0, 1000);
  chunk.set_crc32c(1);
  stream.Send(chunk);
  EXPECT_EQ(stream.Receive().error().reason(), "CHECKSUM_MISMATCH");
  EXPECT_EQ(Counted(), 0);
}

TEST_F(StreamUpdatesTest, AChunkBeforeItsBeginIsRefusedOnce) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3}));
  UpdateStream stream(client_);
  stream.Send(testing::ChunkOf(update, 0, 4));
  stream.Send(testing::ChunkOf(update, 4, 4));
  EXPECT_EQ(stream.Receive().error().reason(), "UPLOAD_NOT_BEGUN");
  EXPECT_THAT(stream.CloseAndReceiveRest(), ::testing::IsEmpty());
}

TEST_F(StreamUpdatesTest, AnUpdateWithoutItsLastChunkIsAnsweredAtTheEnd) {
  const ChunkedUpdate update = testing::Chunked(Update("a", {3, 1}));
  UpdateStream stream(client_);
  stream.Send(update.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  stream.Send(testing::ChunkOf(update, 0, 4));
  const auto rest = stream.CloseAndReceiveRest();
  ASSERT_EQ(rest.size(), 1);
  EXPECT_EQ(rest[0].update_id(), "u-a");
  EXPECT_EQ(rest[0].error().reason(), "UPLOAD_INCOMPLETE");
  EXPECT_EQ(Counted(), 0);
}

TEST_F(StreamUpdatesTest, TwoContributorsMayNotShareAnUpdateIdOnOneStream) {
  ChunkedUpdate first = testing::Chunked(Update("a", {3}));
  ChunkedUpdate second = testing::Chunked(Update("b", {3}));
  second.begin.mutable_header()->set_update_id(first.begin.header().update_id());
  UpdateStream stream(client_);
  stream.Send(first.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  stream.Send(second.begin);
  EXPECT_EQ(stream.Receive().error().reason(), "UPDATE_ID_IN_USE");
  stream.Send(testing::ChunkOf(first, 0, 1000));
  EXPECT_EQ(stream.Receive().receipt().contributor(), "a");
}

TEST_F(StreamUpdatesTest, ADrainingServerEndsAnIdleStream) {
  UpdateStream stream(client_);
  stream.Send(Update("a", {1}));
  EXPECT_TRUE(stream.Receive().has_receipt());
  server_.grpc().Drain();
  EXPECT_THAT(stream.ReceiveRest(), ::testing::IsEmpty());
  EXPECT_EQ(stream.status().code(), absl::StatusCode::kUnavailable) << stream.status();
  EXPECT_EQ(ErrorReason(stream.status()), "SERVER_DRAINING");
}

TEST_F(StreamUpdatesTest, CancelledStreamsLeaveTheServerServing) {
  for (int i = 0; i < 50; ++i) {
    UpdateStream stream(client_);
    stream.Send(testing::Chunked(Update(std::to_string(i), {1, 2, 3})).begin);
    stream.Send(Update("w" + std::to_string(i), {1}));
    stream.Cancel();
  }
  EXPECT_TRUE(client_.Submit(Update("last", {1})).ok());
}

// --- Clients that keep the server waiting ---

class SlowStreamTest : public ::testing::Test {
 protected:
  void Start(const Limits& limits) {
    server_ = std::make_unique<testing::TestServer>(limits);
    client_ = std::make_unique<testing::TestClient>(testing::NewChannel(server_->address()));
    ASSERT_TRUE(client_->Create(testing::VectorRound("t", 1000), "r").ok());
  }
  // Whether, within a time limit, this call becomes the only one in progress.
  bool AllCallsEnd() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (client_->Info()->load().calls() > 1) {
      if (std::chrono::steady_clock::now() > give_up) return false;
    }
    return true;
  }
  ChunkedUpdate Update() {
    return testing::Chunked(VectorUpdate(
        "rounds/r", "a", VectorEntries("t", 1000, {1, 2, 3}, std::vector<float>{1, 1, 1})));
  }

  std::unique_ptr<testing::TestServer> server_;
  std::unique_ptr<testing::TestClient> client_;
};

TEST_F(SlowStreamTest, ASlowUploadIsRefusedAndTheStreamGoesOn) {
  // A rate that no client reaches: the first messages use up the window.
  Start({.upload_rate_min = uint64_t{1} << 40, .upload_rate_window_ms = 1});
  UpdateStream stream(*client_);
  ChunkedUpdate update = Update();
  v1::StreamUpdatesResponse answer;
  // Each attempt waits for the server in between, which does not count.
  for (int tries = 0; !answer.has_error() && tries < 10'000; ++tries) {
    stream.Send(update.begin);
    answer = stream.Receive();
  }
  EXPECT_EQ(answer.error().reason(), "UPLOAD_TOO_SLOW") << answer.DebugString();
  EXPECT_EQ(answer.update_id(), update.begin.header().update_id());
  EXPECT_THAT(answer.error().message(), HasSubstr("upload-rate-min"));
}

TEST_F(SlowStreamTest, AnAbandonedUploadIsDroppedAndItsStreamEnds) {
  Start({.upload_idle_ms = 50});
  UpdateStream stream(*client_);
  const ChunkedUpdate update = Update();
  stream.Send(update.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  stream.Send(testing::ChunkOf(update, 0, 10));
  const v1::StreamUpdatesResponse answer = stream.Receive();
  EXPECT_EQ(answer.error().reason(), "UPLOAD_EXPIRED") << answer.DebugString();
  EXPECT_EQ(answer.update_id(), update.begin.header().update_id());
  EXPECT_THAT(stream.CloseAndReceiveRest(), ::testing::IsEmpty());
  EXPECT_EQ(ErrorReason(stream.status()), "UPLOAD_EXPIRED");
  EXPECT_EQ(client_->Info()->load().staging_bytes(), 0u);
}

TEST_F(SlowStreamTest, AStreamWithNothingUnderWayIsSentHome) {
  Start({.stream_idle_ms = 200});
  UpdateStream stream(*client_);
  v1::StreamUpdatesResponse nothing;
  EXPECT_FALSE(stream.Read(nothing));
  EXPECT_THAT(stream.CloseAndReceiveRest(), ::testing::IsEmpty());
  EXPECT_EQ(ErrorReason(stream.status()), "STREAM_IDLE");
}

TEST_F(SlowStreamTest, AnIdleReductionIsSentHome) {
  Start({.stream_idle_ms = 200});
  const auto context = testing::NewContext();
  const auto stream = client_->stub().Reduce(context.get());
  v1::ReduceRequest message;
  *message.mutable_start()->mutable_spec() = testing::VectorRound("t", 1000);
  EXPECT_TRUE(stream->Write(message));
  v1::ReduceResponse nothing;
  EXPECT_FALSE(stream->Read(&nothing));
  EXPECT_EQ(ErrorReason(testing::FromGrpc(stream->Finish())), "STREAM_IDLE");
}

// 16 MiB of values: more than gRPC buffers for a client that does not read.
TEST_F(SlowStreamTest, AnUnreadResultEndsTheCall) {
  Start({.stream_idle_ms = 200});
  ASSERT_TRUE(client_->Create(testing::VectorRound("t", 4 << 20), "large").ok());
  ASSERT_TRUE(client_->Publish("rounds/large").ok());
  v1::GetAggregateRequest request;
  request.set_name("rounds/large");
  request.set_layout(v1::RESULT_LAYOUT_DENSE);
  const auto context = testing::NewContext();
  const auto stream = client_->stub().GetAggregate(context.get(), request);
  v1::GetAggregateResponse answer;
  EXPECT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(AllCallsEnd());
  while (stream->Read(&answer)) continue;
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SlowStreamTest, AnUnreadReductionEndsTheCall) {
  Start({.stream_idle_ms = 200});
  const auto context = testing::NewContext();
  const auto stream = client_->stub().Reduce(context.get());
  v1::ReduceRequest message;
  *message.mutable_start()->mutable_spec() = testing::VectorRound("t", 4 << 20);
  message.mutable_start()->set_layout(v1::RESULT_LAYOUT_DENSE);
  EXPECT_TRUE(stream->Write(message));
  EXPECT_TRUE(stream->WritesDone());
  v1::ReduceResponse answer;
  EXPECT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(AllCallsEnd());
  while (stream->Read(&answer)) continue;
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SlowStreamTest, OperatorsSeeWhatIsTakenOfTheLimits) {
  Start({});
  UpdateStream stream(*client_);
  const ChunkedUpdate update = Update();
  stream.Send(update.begin);
  EXPECT_TRUE(stream.Receive().has_progress());
  const v1::ServerLoad load = client_->Info()->load();
  EXPECT_EQ(load.open_uploads(), 1u);
  EXPECT_EQ(load.rounds(), 1u);
  EXPECT_GE(load.calls(), 2u) << "the stream and the question itself";
  stream.Cancel();
}

}  // namespace
}  // namespace sparseagg
