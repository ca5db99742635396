// What a CallObserver receives for real calls over a real connection.
#include "service/rpc/observed_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::VectorEntries;
using testing::VectorRound;
using testing::VectorUpdate;

struct Ended {
  std::string method;
  CallReport report;
};

class Recorder : public CallObserver {
 public:
  void OnMethod(const CallMethod& method) override {
    const std::lock_guard lock(mutex_);
    methods_[std::string(method.path)] = method.kind;
  }
  void OnCallStarted(const CallMethod& method) override {
    const std::lock_guard lock(mutex_);
    started_.emplace_back(method.method);
  }
  void OnMessage(const CallMethod& /*method*/, uint64_t bytes_in, uint64_t bytes_out) override {
    const std::lock_guard lock(mutex_);
    bytes_in_ += bytes_in;
    bytes_out_ += bytes_out;
  }
  void OnCallEnded(const CallMethod& method, const CallReport& report) override {
    const std::lock_guard lock(mutex_);
    ended_.push_back({std::string(method.method), report});
    changed_.notify_all();
  }

  // Waits until `count` calls have ended.
  std::vector<Ended> WaitForEnded(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_.size() >= count; });
    return ended_;
  }
  std::vector<std::string> started() {
    const std::lock_guard lock(mutex_);
    return started_;
  }
  std::map<std::string, CallKind> methods() {
    const std::lock_guard lock(mutex_);
    return methods_;
  }
  uint64_t bytes_in() {
    const std::lock_guard lock(mutex_);
    return bytes_in_;
  }
  uint64_t bytes_out() {
    const std::lock_guard lock(mutex_);
    return bytes_out_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, CallKind> methods_;
  std::vector<std::string> started_;
  std::vector<Ended> ended_;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
};

class ObservedCallsTest : public ::testing::Test {
 protected:
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  testing::TestServer server_{{}, "127.0.0.1:0", {}, recorder_};
  testing::TestClient client_{testing::NewChannel(server_.address())};
};

TEST_F(ObservedCallsTest, TellsOfEveryMethodBeforeTheFirstCall) {
  const std::map<std::string, CallKind> methods = recorder_->methods();
  const std::string service = "/sparseagg.v1.AggregationService/";
  EXPECT_EQ(methods.at(service + "SubmitUpdate"), CallKind::kUnary);
  EXPECT_EQ(methods.at(service + "WatchRound"), CallKind::kServerStream);
  EXPECT_EQ(methods.at(service + "StreamUpdates"), CallKind::kBidiStream);
  EXPECT_TRUE(recorder_->started().empty());
}

TEST_F(ObservedCallsTest, ReportsMethodCodeReasonAndBytes) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  const auto update = VectorUpdate(round, "a", VectorEntries("t", 10, {3}, {7}));
  ASSERT_TRUE(client_.Submit(update).ok());
  ASSERT_FALSE(client_.Get("rounds/none").ok());
  const std::vector<Ended> ended = recorder_->WaitForEnded(3);
  ASSERT_EQ(ended.size(), 3);
  EXPECT_EQ(ended[1].method, "SubmitUpdate");
  EXPECT_EQ(ended[1].report.code, absl::StatusCode::kOk);
  EXPECT_EQ(ended[1].report.bytes_in, update.ByteSizeLong());
  EXPECT_GT(ended[1].report.bytes_out, 0);
  EXPECT_GT(ended[1].report.seconds, 0);
  EXPECT_EQ(ended[2].method, "GetRound");
  EXPECT_EQ(ended[2].report.code, absl::StatusCode::kNotFound);
  EXPECT_EQ(ended[2].report.reason, "ROUND_NOT_FOUND");
  EXPECT_THAT(recorder_->started(), ElementsAre("CreateRound", "SubmitUpdate", "GetRound"));
}

TEST_F(ObservedCallsTest, CountsTheMessagesOfAStreamAsTheyCome) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  recorder_->WaitForEnded(1);
  const uint64_t before = recorder_->bytes_in();
  const auto context = testing::NewContext();
  const auto stream = client_.stub().StreamUpdates(context.get());
  uint64_t bytes = 0;
  for (const char* contributor : {"a", "b"}) {
    v1::StreamUpdatesRequest request;
    *request.mutable_update() = VectorUpdate(round, contributor, VectorEntries("t", 10, {3}, {7}));
    bytes += request.ByteSizeLong();
    ASSERT_TRUE(stream->Write(request));
    v1::StreamUpdatesResponse response;
    ASSERT_TRUE(stream->Read(&response));
  }
  EXPECT_EQ(recorder_->bytes_in() - before, bytes);
  EXPECT_EQ(recorder_->WaitForEnded(1).size(), 1);  // the stream is still open
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  const std::vector<Ended> ended = recorder_->WaitForEnded(2);
  EXPECT_EQ(ended[1].method, "StreamUpdates");
  EXPECT_EQ(ended[1].report.bytes_in, bytes);
}

TEST_F(ObservedCallsTest, AnswersWithTheCallersRequestId) {
  const auto context = testing::NewContext();
  context->AddMetadata("x-request-id", "step-17");
  context->AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  v1::ServerInfo info;
  ASSERT_TRUE(client_.stub().GetServerInfo(context.get(), {}, &info).ok());
  const auto& trailers = context->GetServerTrailingMetadata();
  ASSERT_EQ(trailers.count("x-request-id"), 1);
  EXPECT_EQ(trailers.find("x-request-id")->second, "step-17");
  const RequestIds ids = recorder_->WaitForEnded(1)[0].report.ids;
  EXPECT_EQ(ids.request_id, "step-17");
  EXPECT_EQ(ids.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(ids.parent_id, "00f067aa0ba902b7");
}

TEST_F(ObservedCallsTest, MakesARequestIdWhenTheCallerSendsNoneOrABadOne) {
  const auto context = testing::NewContext();
  context->AddMetadata("x-request-id", "not an id");
  v1::ServerInfo info;
  ASSERT_TRUE(client_.stub().GetServerInfo(context.get(), {}, &info).ok());
  const auto& trailers = context->GetServerTrailingMetadata();
  ASSERT_EQ(trailers.count("x-request-id"), 1);
  EXPECT_EQ(trailers.find("x-request-id")->second.size(), 16);
}

TEST_F(ObservedCallsTest, ReportsACallThatItsClientCancelled) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  const auto context = testing::NewContext();
  const auto stream = client_.stub().StreamUpdates(context.get());
  v1::StreamUpdatesRequest request;
  *request.mutable_update() = VectorUpdate(round, "a", VectorEntries("t", 10, {3}, {7}));
  ASSERT_TRUE(stream->Write(request));
  v1::StreamUpdatesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  context->TryCancel();
  stream->Finish();
  EXPECT_EQ(recorder_->WaitForEnded(2)[1].report.code, absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace sparseagg
