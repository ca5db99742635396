#include "service/rpc/aggregation_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/status.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::VectorEntries;
using testing::VectorRound;
using testing::VectorUpdate;

class AggregationServiceTest : public testing::RpcTest {};

TEST_F(AggregationServiceTest, SumsUpdatesOfTwoContributorsByIndex) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  ASSERT_TRUE(
      client_.Submit(VectorUpdate(round, "a", VectorEntries("t", 10, {0, 5}, {1, 1}))).ok());
  ASSERT_TRUE(
      client_.Submit(VectorUpdate(round, "b", VectorEntries("t", 10, {5, 9}, {1, 1}))).ok());
  const auto published = client_.Publish(round);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->state(), v1::ROUND_STATE_PUBLISHED);
  EXPECT_EQ(published->manifest().contributors(), 2);

  const auto answer = client_.Aggregate(round);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(testing::ArrayOf<int64_t>(answer->indices()), ElementsAre(0, 5, 9));
  EXPECT_THAT(testing::ArrayOf<float>(answer->values()), ElementsAre(1, 2, 1));
}

// The back end's times are those of tests/service/timed_backend.h.
TEST_F(AggregationServiceTest, ShowsHowEachTensorWasReduced) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  ASSERT_TRUE(
      client_.Submit(VectorUpdate(round, "a", VectorEntries("t", 10, {0, 5}, {1, 1}))).ok());
  ASSERT_TRUE(client_.Publish(round).ok());
  const auto published = client_.Get(round);
  ASSERT_TRUE(published.ok()) << published.status();
  ASSERT_EQ(published->tensors_size(), 1);
  const v1::TensorStatus& tensor = published->tensors(0);
  EXPECT_EQ(tensor.name(), "t");
  EXPECT_EQ(tensor.backend(), "reference");
  EXPECT_EQ(tensor.plan(), "wide");
  EXPECT_EQ(tensor.plan_reason(), "the only plan of this back end");
  EXPECT_EQ(tensor.nnz_received(), 2);
  EXPECT_EQ(tensor.nnz_result(), 2);
  EXPECT_EQ(tensor.predicted_seconds(), 1.25);
  EXPECT_EQ(tensor.measured_seconds(), 3.5);
}

TEST_F(AggregationServiceTest, AnswersAResendWithTheFirstReceipt) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  const auto update = VectorUpdate(round, "a", VectorEntries("t", 10, {3}, {7}));
  const auto first = client_.Submit(update);
  const auto second = client_.Submit(update);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_FALSE(first->duplicate());
  EXPECT_TRUE(second->duplicate());
  EXPECT_EQ(first->sequence(), second->sequence());
  EXPECT_EQ(first->digest(), second->digest());
  EXPECT_EQ(client_.Publish(round)->contributors(), 1);
}

TEST_F(AggregationServiceTest, AnUnsetWeightCountsAsOne) {
  const std::string round = client_.Create(VectorRound("t", 10))->name();
  ASSERT_TRUE(client_.Submit(VectorUpdate(round, "a", VectorEntries("t", 10, {3}, {7}))).ok());
  EXPECT_EQ(client_.Publish(round)->manifest().total_weight(), 1.0);
}

TEST_F(AggregationServiceTest, CreatesOnceForOneRequestId) {
  const auto first = client_.Create(VectorRound("t", 10), "", "request-1");
  const auto second = client_.Create(VectorRound("t", 10), "", "request-1");
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(first->name(), second->name());
}

TEST_F(AggregationServiceTest, AnErrorCarriesCodeReasonAndMessage) {
  const absl::Status missing = client_.Get("rounds/nowhere").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorReason(missing), "ROUND_NOT_FOUND");
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nowhere"));
}

TEST_F(AggregationServiceTest, RefusesAValueTypeOfAnotherVersionByName) {
  v1::RoundSpec spec = VectorRound("emb", 10);
  spec.mutable_tensors(0)->set_value_type(static_cast<v1::ValueType>(99));
  const absl::Status refused = client_.Create(spec).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(refused), "UNKNOWN_VALUE_TYPE");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("emb"));
}

TEST_F(AggregationServiceTest, RefusesAnUnknownDurability) {
  v1::RoundSpec spec = VectorRound("t", 10);
  spec.set_durability(static_cast<v1::Durability>(99));
  EXPECT_EQ(ErrorReason(client_.Create(spec).status()), "UNKNOWN_DURABILITY");
}

TEST_F(AggregationServiceTest, ListsRoundsPageByPage) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(client_.Create(VectorRound("t", 10), id).ok());
  std::vector<std::string> names;
  v1::ListRoundsRequest request;
  request.set_page_size(2);
  int pages = 0;
  do {
    v1::ListRoundsResponse response;
    ASSERT_TRUE(client_.stub().ListRounds(testing::NewContext().get(), request, &response).ok());
    EXPECT_LE(response.rounds_size(), 2);
    for (const v1::Round& round : response.rounds()) names.push_back(round.name());
    request.set_page_token(response.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 2);
  EXPECT_THAT(names, ElementsAre("rounds/a", "rounds/b", "rounds/c"));
}

// gRPC's clients refuse a message of more than 4 MiB by default.
TEST_F(AggregationServiceTest, APageOfLargeRoundsIsShorter) {
  v1::RoundSpec spec;
  for (int i = 0; i < 1000; ++i) {
    *spec.add_tensors() = VectorRound(std::string(100, 't') + std::to_string(i), 10).tensors(0);
  }
  std::vector<std::string> created;
  for (int i = 10; i < 40; ++i) {
    created.push_back("rounds/large-" + std::to_string(i));
    ASSERT_TRUE(client_.Create(spec, "large-" + std::to_string(i)).ok());
  }
  std::vector<std::string> names;
  v1::ListRoundsRequest request;
  do {
    v1::ListRoundsResponse response;
    const auto status = client_.stub().ListRounds(testing::NewContext().get(), request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_LE(response.ByteSizeLong(), size_t{4} << 20);
    EXPECT_GT(response.rounds_size(), 1);
    for (const v1::Round& round : response.rounds()) names.push_back(round.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, created);
}

TEST_F(AggregationServiceTest, RefusesANegativePageSize) {
  v1::ListRoundsRequest request;
  request.set_page_size(-1);
  v1::ListRoundsResponse response;
  const auto status = client_.stub().ListRounds(testing::NewContext().get(), request, &response);
  EXPECT_EQ(ErrorReason(testing::FromGrpc(status)), "INVALID_PAGE_SIZE");
}

TEST_F(AggregationServiceTest, DeletesAnAbortedRoundAndRemembersItsName) {
  ASSERT_TRUE(client_.Create(VectorRound("t", 10), "gone").ok());
  EXPECT_EQ(client_.Abort("rounds/gone")->state(), v1::ROUND_STATE_ABORTED);
  EXPECT_TRUE(client_.Delete("rounds/gone").ok());
  EXPECT_EQ(ErrorReason(client_.Get("rounds/gone").status()), "ROUND_EXPIRED");
  EXPECT_EQ(ErrorReason(client_.Create(VectorRound("t", 10), "gone").status()), "ROUND_EXISTS");
  EXPECT_TRUE(client_.Delete("rounds/gone").ok());
}

TEST_F(AggregationServiceTest, AMessageAboveTheLimitLeavesTheConnectionAlive) {
  const auto round = client_.Create(VectorRound("t", 10), "big");
  const std::vector<float> values((16 << 20) / sizeof(float) + 1);
  auto update = VectorUpdate(round->name(), "a", VectorEntries("t", 10, {}, values));
  EXPECT_EQ(client_.Submit(update).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client_.Get(round->name())->contributors(), 0);
  EXPECT_EQ(client_.channel()->GetState(false), GRPC_CHANNEL_READY);
}

TEST(UnixSocketTest, ServesOnAUnixSocket) {
  const std::string path = ::testing::TempDir() + "sparseagg_" + std::to_string(getpid()) + ".sock";
  testing::TestServer server({}, "unix:" + path);
  testing::TestClient client(testing::NewChannel(server.address()));
  EXPECT_TRUE(client.Create(VectorRound("t", 10)).ok());
}

TEST(PortInUseTest, SaysThatTheAddressIsTaken) {
  testing::TestServer first;
  const auto second = GrpcServer::Start(first.address(), first.engine(), {});
  EXPECT_EQ(ErrorReason(second.status()), "CANNOT_LISTEN");
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first.address()));
}

}  // namespace
}  // namespace sparseagg
