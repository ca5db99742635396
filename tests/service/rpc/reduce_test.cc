#include "service/rpc/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "service/rpc/background.h"
#include "service/rpc/grpc_server.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

using testing::ArrayOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::StartsWith;

class ReduceTest : public testing::RpcTest {
 protected:
  static v1::ReduceRequest Start(v1::ResultLayout layout = v1::RESULT_LAYOUT_SPARSE) {
    v1::ReduceRequest message;
    *message.mutable_start()->mutable_spec() = testing::VectorRound("t", 10);
    message.mutable_start()->set_layout(layout);
    return message;
  }

  // Contributor and update_id stay empty, as Reduce allows.
  static v1::ReduceRequest Update(const std::vector<int64_t>& indices,
                                  const std::vector<float>& values) {
    v1::ReduceRequest message;
    *message.mutable_update()->add_tensors() = testing::VectorEntries("t", 10, indices, values);
    return message;
  }

  // The messages of one update in chunks of `chunk_bytes`; the last `missing_bytes` are not sent.
  static std::vector<v1::ReduceRequest> Chunks(const v1::ReduceRequest& whole, size_t chunk_bytes,
                                               size_t missing_bytes = 0) {
    const testing::ChunkedUpdate update = testing::Chunked(whole.update());
    std::vector<v1::ReduceRequest> messages(1);
    *messages[0].mutable_begin() = update.begin;
    const size_t end = update.bytes.size() - missing_bytes;
    for (size_t offset = 0; offset < end; offset += chunk_bytes) {
      *messages.emplace_back().mutable_chunk() =
          testing::ChunkOf(update, offset, std::min(chunk_bytes, end - offset));
    }
    return messages;
  }

  size_t RoundsOnTheServer() { return server_.engine().ListRounds("", 10).size(); }
};

TEST_F(ReduceTest, SumsTheUpdatesOfOneCall) {
  const auto answer = client_.Reduce({Start(), Update({0, 5}, {1, 1}), Update({5, 9}, {1, 1})});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ArrayOf<int64_t>(answer->indices()), ElementsAre(0, 5, 9));
  EXPECT_THAT(ArrayOf<float>(answer->values()), ElementsAre(1, 2, 1));
  EXPECT_EQ(answer->header.round(), "");
  EXPECT_EQ(answer->header.manifest().contributors(), 2);
  EXPECT_EQ(RoundsOnTheServer(), 0);
}

TEST_F(ReduceTest, AnswersDenseWhenAsked) {
  const auto answer = client_.Reduce({Start(v1::RESULT_LAYOUT_DENSE), Update({1}, {4})});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ArrayOf<float>(answer->values()), ElementsAre(0, 4, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(ReduceTest, NoUpdatesGiveAnEmptyTensor) {
  const auto answer = client_.Reduce({Start()});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header.tensors(0).nnz(), 0);
  EXPECT_EQ(answer->bytes, "");
}

TEST_F(ReduceTest, TakesUpdatesInChunksBesideWholeOnes) {
  std::vector<v1::ReduceRequest> messages = {Start(), Update({5}, {1})};
  for (auto& message : Chunks(Update({5, 2}, {10, 20}), 5)) messages.push_back(message);
  const auto answer = client_.Reduce(messages);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ArrayOf<int64_t>(answer->indices()), ElementsAre(2, 5));
  EXPECT_THAT(ArrayOf<float>(answer->values()), ElementsAre(20, 11));
}

// More than 2 MiB, so that it is decoded on another thread.
TEST_F(ReduceTest, TakesLongMessages) {
  constexpr int64_t kEntries = 200'000;
  std::vector<int64_t> indices(kEntries);
  for (int64_t i = 0; i < kEntries; ++i) indices[i] = i % 10;
  const std::vector<float> ones(kEntries, 1);
  const auto answer = client_.Reduce({Start(), Update(indices, ones), Update(indices, ones)});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ArrayOf<float>(answer->values()), Each(2 * kEntries / 10));
  indices.back() = 10;
  const absl::Status refused = client_.Reduce({Start(), Update(indices, ones)}).status();
  EXPECT_EQ(ErrorReason(refused), "INDEX_OUT_OF_RANGE");
}

TEST_F(ReduceTest, AnUpdateInChunksMayBeEmpty) {
  std::vector<v1::ReduceRequest> messages = {Start()};
  for (auto& message : Chunks(Update({}, {}), 5)) messages.push_back(message);
  const auto answer = client_.Reduce(messages);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header.manifest().contributors(), 1);
}

TEST_F(ReduceTest, AnUpdateWithoutItsLastChunkEndsTheCall) {
  std::vector<v1::ReduceRequest> messages = {Start()};
  for (auto& message : Chunks(Update({5, 2}, {10, 20}), 5, 3)) messages.push_back(message);
  const absl::Status refused = client_.Reduce(messages).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(refused), "UPLOAD_INCOMPLETE");
}

TEST_F(ReduceTest, NeedsAStart) {
  EXPECT_EQ(ErrorReason(client_.Reduce({Update({1}, {1})}).status()), "REDUCE_NOT_STARTED");
  EXPECT_EQ(ErrorReason(client_.Reduce({}).status()), "REDUCE_NOT_STARTED");
}

TEST_F(ReduceTest, TakesOneStart) {
  EXPECT_EQ(ErrorReason(client_.Reduce({Start(), Start()}).status()), "REDUCE_STARTED_TWICE");
}

TEST_F(ReduceTest, RefusesAMessageWithoutBody) {
  EXPECT_EQ(ErrorReason(client_.Reduce({Start(), v1::ReduceRequest()}).status()), "EMPTY_MESSAGE");
}

TEST_F(ReduceTest, ABadUpdateEndsTheCallWithItsError) {
  const absl::Status refused =
      client_.Reduce({Start(), Update({1}, {1}), Update({10}, {1})}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(refused), "INDEX_OUT_OF_RANGE");
  EXPECT_FALSE(ErrorMetadata(refused).contains("update_id"));
}

TEST_F(ReduceTest, AnErrorSaysWhichUpdateItIsAbout) {
  v1::ReduceRequest good = Update({1}, {1});
  good.mutable_update()->mutable_header()->set_update_id("good");
  v1::ReduceRequest bad = Update({3, 10}, {1, 2});
  bad.mutable_update()->mutable_header()->set_update_id("bad-1");
  const std::vector<v1::ReduceRequest> whole = {Start(), good, bad};
  std::vector<v1::ReduceRequest> in_chunks = {Start(), good};
  for (const auto& message : Chunks(bad, 5)) in_chunks.push_back(message);
  for (const auto& messages : {whole, in_chunks}) {
    const absl::Status refused = client_.Reduce(messages).status();
    EXPECT_THAT(std::string(refused.message()), StartsWith("update \"bad-1\": tensor \"t\": "));
    EXPECT_EQ(ErrorMetadata(refused)["update_id"], "bad-1");
  }
}

TEST_F(ReduceTest, AnUpdateIdThatIsNoneIsNotRepeated) {
  v1::ReduceRequest bad = Update({10}, {1});
  bad.mutable_update()->mutable_header()->set_update_id(std::string(100'000, 'x'));
  const absl::Status refused = client_.Reduce({Start(), bad}).status();
  EXPECT_EQ(ErrorReason(refused), "INVALID_UPDATE_ID");
  EXPECT_FALSE(ErrorMetadata(refused).contains("update_id"));
}

TEST_F(ReduceTest, ACancelledCallLeavesTheServerServing) {
  for (int i = 0; i < 20; ++i) {
    const auto context = testing::NewContext();
    const auto stream = client_.stub().Reduce(context.get());
    ASSERT_TRUE(stream->Write(Start()));
    for (const auto& message : Chunks(Update({5, 2}, {10, 20}), 5, 3))
      ASSERT_TRUE(stream->Write(message));
    context->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(client_.Reduce({Start(), Update({1}, {1})}).ok());
}

// Records the threads on which updates are added, which must not be gRPC's.
class NotingEngine : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  absl::StatusOr<std::unique_ptr<StatelessReduction>> NewReduction(
      const RoundSpec& spec, std::string_view tenant) override {
    SPARSEAGG_ASSIGN_OR_RETURN(auto reduction, ForwardingEngine::NewReduction(spec, tenant));
    return std::make_unique<NotingReduction>(*this, std::move(reduction));
  }
  std::vector<std::string> threads() {
    const std::lock_guard lock(mutex_);
    return threads_;
  }
  std::atomic<int> reports = 0;

 private:
  class NotingReduction : public StatelessReduction {
   public:
    NotingReduction(NotingEngine& engine, std::unique_ptr<StatelessReduction> reduction)
        : engine_(engine), reduction_(std::move(reduction)) {}
    absl::Status Add(const UpdateHeader& header,
                     const std::vector<EncodedTensor>& tensors) override {
      char name[16] = {};
      pthread_getname_np(pthread_self(), name, sizeof(name));
      {
        const std::lock_guard lock(engine_.mutex_);
        engine_.threads_.emplace_back(name);
      }
      return reduction_->Add(header, tensors);
    }
    absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
        const UpdateHeader& header, std::vector<EncodedHeader> tensors) override {
      return reduction_->BeginUpload(header, std::move(tensors));
    }
    absl::StatusOr<RoundPartial> Snapshot() override { return reduction_->Snapshot(); }
    absl::Status Merge(const RoundPartial& partial) override { return reduction_->Merge(partial); }
    absl::StatusOr<std::shared_ptr<const PublishedResult>> Report() override {
      ++engine_.reports;
      return reduction_->Report();
    }

   private:
    NotingEngine& engine_;
    const std::unique_ptr<StatelessReduction> reduction_;
  };

  std::mutex mutex_;
  std::vector<std::string> threads_;
};

class ReduceThreadsTest : public ReduceTest {
 protected:
  NotingEngine noting_{server_.engine()};
  const std::unique_ptr<GrpcServer> grpc_ = GrpcServer::Start("127.0.0.1:0", noting_, {}).value();
  testing::TestClient noted_{testing::NewChannel("127.0.0.1:" + std::to_string(grpc_->port()))};
};

TEST_F(ReduceThreadsTest, FoldsOnNoneOfTheThreadsThatAllCallsNeed) {
  const auto answer = noted_.Reduce({Start(), Update({0, 5}, {1, 1}), Update({5, 9}, {1, 1})});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(noting_.threads(), ElementsAre(kBackgroundThreadName, kBackgroundThreadName));
}

TEST_F(ReduceThreadsTest, MakesNoResultForACallerWhoIsGone) {
  for (int i = 0; i < 300; ++i) {
    const auto context = testing::NewContext();
    const auto stream = noted_.stub().Reduce(context.get());
    ASSERT_TRUE(stream->Write(Start()));
    const size_t added = noting_.threads().size();
    ASSERT_TRUE(stream->Write(Update({0, 5}, {1, 1})));
    while (noting_.threads().size() == added) std::this_thread::yield();
    context->TryCancel();
    EXPECT_FALSE(stream->Finish().ok());
  }
  grpc_->Stop(std::chrono::system_clock::now() + std::chrono::seconds(60));  // all have ended
  EXPECT_EQ(noting_.reports, 0);
}

}  // namespace
}  // namespace sparseagg
