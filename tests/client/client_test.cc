// The client library against the real server in this process.
#include "client/client.h"

#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/cutting_proxy.h"
#include "tests/client/support.h"
#include "tests/service/rpc/test_server.h"
#include "tests/support/silent_listener.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::CuttingProxy;
using sparseagg::testing::HasError;
using sparseagg::testing::Impatient;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::SameTensor;
using sparseagg::testing::SilentListener;
using sparseagg::testing::TestServer;
using sparseagg::testing::ValuesOf;

const TensorSpec kEmb{"emb", ValueType::kF32, {10, 2}, 1};

Update From(const std::string& contributor, const Tensor& tensor, float weight = 1) {
  Update update;
  update.contributor = contributor;
  update.weight = weight;
  update.tensors = {tensor.view()};
  return update;
}

NewRound RoundOf(std::vector<TensorSpec> tensors, const std::string& id = "") {
  NewRound round;
  round.id = id;
  round.tensors = std::move(tensors);
  return round;
}

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> NewClient(ClientOptions options = Impatient()) {
    return Client::Connect(server_.address(), std::move(options)).value();
  }

  TestServer server_;
  std::unique_ptr<Client> client_ = NewClient();
};

TEST_F(ClientTest, RunsARoundFromCreationToDeletion) {
  const RoundInfo round = client_->CreateRound(RoundOf({kEmb}, "first")).value();
  EXPECT_EQ(round.name, "rounds/first");
  EXPECT_EQ(round.state, RoundState::kOpen);
  const Tensor a = MakeTensor<float>(kEmb, {7, 2}, {1, 2, 3, 4});
  const Tensor b = MakeTensor<float>(kEmb, {7}, {10, 20});
  EXPECT_EQ(client_->Submit(round.name, From("a", a))->sequence, 1u);
  EXPECT_EQ(client_->Submit("first", From("b", b, 2))->sequence, 2u);
  ASSERT_TRUE(client_->Seal(round.name).ok());
  const RoundInfo published = client_->Wait(round.name).value();
  EXPECT_EQ(published.state, RoundState::kPublished);
  EXPECT_EQ(published.manifest->contributors, 2u);
  EXPECT_EQ(published.manifest->total_weight, 3.0);
  const TensorStatus& status = published.tensor_status.at(0);
  EXPECT_EQ(status.plan, "wide");
  EXPECT_EQ(status.plan_reason, "the only plan of this back end");
  EXPECT_EQ(status.nnz_received, 3u);
  EXPECT_EQ(status.nnz_result, 2u);
  EXPECT_EQ(status.predicted_seconds, 1.5);  // from tests/service/timed_backend.h
  EXPECT_EQ(status.measured_seconds, 4.0);
  const Result result = client_->Pull(round.name).value();
  ASSERT_EQ(result.tensors.size(), 1u);
  EXPECT_TRUE(SameTensor(result.tensors[0], MakeTensor<float>(kEmb, {2, 7}, {3, 4, 21, 42})));
  EXPECT_EQ(result.manifest.result_digest, published.manifest->result_digest);
  ASSERT_TRUE(client_->Delete(round.name).ok());
  EXPECT_EQ(client_->GetRound(round.name).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, PullsSelectionsSparseAndDense) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  ASSERT_TRUE(client_->Submit(name, From("a", MakeTensor<float>(kEmb, {7, 2}, {1, 2, 3, 4}))).ok());
  ASSERT_TRUE(client_->Seal(name).ok());
  ASSERT_TRUE(client_->Wait(name).ok());
  PullOptions options;
  options.selections = {{"emb", {7, 5}}};
  EXPECT_TRUE(SameTensor(client_->Pull(name, options)->tensors.at(0),
                         MakeTensor<float>(kEmb, {7}, {1, 2})));
  options.dense = true;
  const Tensor rows = client_->Pull(name, options)->tensors.at(0);
  EXPECT_EQ(rows.dense_shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(ValuesOf<float>(rows), (std::vector<float>{1, 2, 0, 0}));
  options.selections.clear();
  EXPECT_EQ(client_->Pull(name, options)->tensors.at(0).values.size(), 20 * sizeof(float));
  options.selections = {{"emb", {10}}};
  EXPECT_TRUE(HasError(client_->Pull(name, options).status(), "INDEX_OUT_OF_RANGE", "row 10"));
  options.selections = {{"other", {1}}};
  EXPECT_TRUE(HasError(client_->Pull(name, options).status(), "UNKNOWN_TENSOR", "\"other\""));
}

// More than a server lets a connection have at a time.
TEST_F(ClientTest, ManyThreadsWatchOverOneClient) {
  constexpr int kThreads = 300;
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  std::mutex mutex;
  std::condition_variable changed;
  int watching = 0;
  int published = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const absl::Status ended = client_->Watch(name, [&](const RoundInfo& round) {
        const std::lock_guard lock(mutex);
        ++(round.state == RoundState::kOpen ? watching : published);
        changed.notify_all();
        return round.state != RoundState::kPublished;
      });
      EXPECT_TRUE(ended.ok()) << ended;
    });
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(
        changed.wait_for(lock, std::chrono::seconds(60), [&] { return watching == kThreads; }))
        << watching << " of " << kThreads << " are watching";
  }
  EXPECT_TRUE(NewClient()->Seal(name).ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(published, kThreads);
}

TEST_F(ClientTest, CreatesTheSameRoundForTheSameRequest) {
  NewRound round = RoundOf({kEmb});
  round.request_id = "once";
  EXPECT_EQ(client_->CreateRound(round)->name, client_->CreateRound(round)->name);
  EXPECT_EQ(client_->ListRounds()->size(), 1u);
}

TEST_F(ClientTest, KeepsReasonAndCodeOfTheServersErrors) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  Tensor nan = MakeTensor<float>(kEmb, {7}, {1, std::numeric_limits<float>::quiet_NaN()});
  const absl::Status status = client_->Submit(name, From("a", nan)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(HasError(status, "NON_FINITE_VALUE", "emb"));
  EXPECT_TRUE(HasError(client_->Pull(name).status(), "ROUND_NOT_PUBLISHED", name));
}

TEST_F(ClientTest, RecognisesTheSameUpdateWithoutAnId) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  const Tensor tensor = MakeTensor<float>(kEmb, {7}, {1, 2});
  EXPECT_FALSE(client_->Submit(name, From("a", tensor))->duplicate);
  EXPECT_TRUE(NewClient()->Submit(name, From("a", tensor))->duplicate);
  EXPECT_TRUE(HasError(client_->Submit(name, From("a", tensor, 2)).status(),
                       "CONTRIBUTOR_ALREADY_COUNTED", "\"a\""));
}

TEST_F(ClientTest, SendsLargeUpdatesInChunksWithTheSameResult) {
  ClientOptions small = Impatient();
  small.unary_bytes_max = 0;
  small.chunk_bytes = 5;
  const auto chunking = NewClient(small);
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  const Tensor tensor = MakeTensor<float>(kEmb, {2, 7}, {1, 2, 3, 4});
  std::vector<uint64_t> done;
  const Receipt receipt = chunking
                              ->Submit(name, From("a", tensor),
                                       [&](uint64_t bytes, uint64_t total) {
                                         EXPECT_EQ(total, 24u);
                                         done.push_back(bytes);
                                       })
                              .value();
  EXPECT_FALSE(receipt.duplicate);
  EXPECT_EQ(done, (std::vector<uint64_t>{0, 5, 10, 15, 20, 24}));
  EXPECT_TRUE(client_->Submit(name, From("a", tensor))->duplicate) << "whole, the same update";
  EXPECT_TRUE(chunking->Submit(name, From("a", tensor))->duplicate) << "in chunks, again";
}

TEST_F(ClientTest, StopsAnUploadThatIsRefused) {
  ClientOptions small = Impatient();
  small.unary_bytes_max = 0;
  const auto chunking = NewClient(small);
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  const TensorSpec other{"emb", ValueType::kF32, {11, 2}, 1};
  EXPECT_TRUE(
      HasError(chunking->Submit(name, From("a", MakeTensor<float>(other, {7}, {1, 2}))).status(),
               "SHAPE_MISMATCH", "emb"));
  const Tensor infinite = MakeTensor<float>(kEmb, {7}, {1, std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(
      HasError(chunking->Submit(name, From("a", infinite)).status(), "NON_FINITE_VALUE", "emb"));
}

TEST_F(ClientTest, ResumesAnUploadAfterBrokenConnections) {
  const TensorSpec big{"big", ValueType::kF32, {int64_t{1} << 20}, 1};
  Tensor tensor = MakeEmptyTensor(big).value();
  for (uint64_t i = 0; i < 100'000; ++i) tensor.indices.push_back(i * 2);
  tensor.values = sparseagg::testing::BytesOf(std::vector<float>(tensor.indices.size(), 1.5f));
  const std::string name = client_->CreateRound(RoundOf({big}))->name;

  // No connection carries the 800 kB of the update, so only an upload that resumes can succeed.
  CuttingProxy proxy(server_.grpc().port(), 300'000);
  ClientOptions options = Impatient();
  options.unary_bytes_max = 0;
  options.chunk_bytes = 16 << 10;
  options.retry = {1000, 1, 20};
  const auto cut = Client::Connect(proxy.address(), options).value();
  Update update = From("a", tensor);
  update.encoding = "coo.raw";
  const absl::StatusOr<Receipt> receipt = cut->Submit(name, update);
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_GE(proxy.connections(), 3u);

  ASSERT_TRUE(client_->Seal(name).ok());
  ASSERT_TRUE(client_->Wait(name).ok());
  EXPECT_TRUE(SameTensor(client_->Pull(name)->tensors.at(0), tensor));
}

TEST_F(ClientTest, RepeatsSubmissionsOverABrokenConnectionWithoutCountingTwice) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  CuttingProxy proxy(server_.grpc().port(), 2000);
  ClientOptions options = Impatient();
  options.retry = {1000, 1, 20};
  const auto cut = Client::Connect(proxy.address(), options).value();
  for (int i = 0; i < 60; ++i) {
    const Tensor tensor = MakeTensor<float>(kEmb, {7}, {1, 2});
    ASSERT_TRUE(cut->Submit(name, From("c" + std::to_string(i), tensor)).ok());
  }
  EXPECT_EQ(client_->GetRound(name)->contributors, 60u);
  EXPECT_GE(proxy.connections(), 3u);
}

TEST_F(ClientTest, ReducesWithoutARound) {
  const Tensor a = MakeTensor<float>({"t", ValueType::kF32, {10}, 1}, {0, 5}, {1, 1});
  const Tensor b = MakeTensor<float>({"t", ValueType::kF32, {10}, 1}, {5, 9}, {1, 1});
  const std::vector<Update> updates = {From("", a), From("", b)};
  for (const uint64_t unary_bytes_max : {uint64_t{1} << 20, uint64_t{0}}) {
    ClientOptions options = Impatient();
    options.unary_bytes_max = unary_bytes_max;
    options.chunk_bytes = 3;
    const absl::StatusOr<Result> result = NewClient(options)->Reduce({SpecOf(a)}, updates);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->tensors.at(0).indices, (std::vector<uint64_t>{0, 5, 9}));
    EXPECT_EQ(ValuesOf<float>(result->tensors.at(0)), (std::vector<float>{1, 2, 1}));
  }
  EXPECT_TRUE(client_->ListRounds()->empty());
}

TEST_F(ClientTest, ReduceReportsTheErrorOfItsSource) {
  ReduceRequest request;
  request.tensors = {kEmb};
  request.num_updates = 1;
  request.update = [](uint64_t) -> absl::StatusOr<Update> {
    return MakeError(absl::StatusCode::kInvalidArgument, "MY_REASON", "my file");
  };
  EXPECT_TRUE(HasError(client_->Reduce(request).status(), "MY_REASON", "my file"));
  EXPECT_TRUE(client_->Info().ok());
}

TEST_F(ClientTest, WatchSeesEveryStateUntilTheEnd) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  std::vector<RoundState> states;
  ASSERT_TRUE(client_
                  ->Watch(name,
                          [&](const RoundInfo& round) {
                            states.push_back(round.state);
                            if (states.size() == 1) {
                              EXPECT_TRUE(NewClient()->Seal(name).ok());
                            }
                            return true;
                          })
                  .ok());
  EXPECT_EQ(states.front(), RoundState::kOpen);
  EXPECT_EQ(states.back(), RoundState::kPublished);
}

TEST_F(ClientTest, WatchEndsWhenTheCallerWantsNoMore) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  int calls = 0;
  EXPECT_TRUE(client_->Watch(name, [&](const RoundInfo&) { return ++calls < 1; }).ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(ClientTest, WaitReportsAnAbortedRoundAndATimeout) {
  const std::string name = client_->CreateRound(RoundOf({kEmb}))->name;
  EXPECT_TRUE(HasError(client_->Wait(name, 50).status(), "NO_ANSWER_IN_TIME", "within 50 ms"));
  std::jthread later([&] { EXPECT_TRUE(client_->Abort(name).ok()); });
  EXPECT_TRUE(HasError(client_->Wait(name, std::numeric_limits<uint64_t>::max()).status(),
                       "ROUND_ABORTED", name));
  later.join();
  EXPECT_TRUE(HasError(client_->Wait(name).status(), "ROUND_ABORTED", name));
}

TEST_F(ClientTest, InfoTellsWhatTheServerIs) { EXPECT_EQ(client_->Info()->version, "test"); }

TEST(ClientWithoutServerTest, SaysThatItCannotConnect) {
  int port;
  {
    TestServer gone;
    port = gone.grpc().port();
  }
  const std::string target = "127.0.0.1:" + std::to_string(port);
  const absl::Status status = Client::Connect(target, Impatient()).value()->Info().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(
      HasError(status, "CANNOT_CONNECT", "cannot reach " + target + ": connection refused"));
}

TEST(ClientWithoutServerTest, WaitsNoLongerThanItsTimeoutForAServerThatDoesNotAnswer) {
  const SilentListener server;
  ClientOptions options = Impatient();
  options.call_timeout_ms = 60'000;
  const auto client = Client::Connect(server.address(), options).value();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(HasError(client->Wait("r", 50).status(), "NO_ANSWER_IN_TIME", "within 50 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(ClientWithoutServerTest, RefusesAnEmptyTarget) {
  EXPECT_TRUE(HasError(Client::Connect("").status(), "INVALID_TARGET", "HOST:PORT"));
}

}  // namespace
}  // namespace sparseagg::client
