// Hostile and mistaken input, one row a case. Each is refused with its code and reason, and the
// message names the tensor, the position and the limit. Nothing of it is counted, and the server
// and the connection stay usable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg {
namespace {

using testing::Bytes;
using ::testing::HasSubstr;
using testing::VectorEntries;
using testing::VectorUpdate;
using Code = absl::StatusCode;

constexpr int64_t kRows = 800;

struct BadUpdate {
  std::string name;
  std::function<void(v1::SubmitUpdateRequest&)> spoil;
  Code code;
  std::string reason;
  std::vector<std::string> words;  // of the message
};

void PrintTo(const BadUpdate& bad, std::ostream* out) { *out << bad.name; }

// For tensor "emb", 800 rows, entries at rows 17 and 3.
v1::SubmitUpdateRequest GoodUpdate(const std::string& round, const std::string& contributor) {
  return VectorUpdate(round, contributor, VectorEntries("emb", kRows, {17, 3}, {1, 2}));
}

void SetIndices(v1::SubmitUpdateRequest& update, const std::vector<int64_t>& indices) {
  update.mutable_tensors(0)->set_indices(Bytes(indices));
}
void SetValues(v1::SubmitUpdateRequest& update, const std::vector<float>& values) {
  update.mutable_tensors(0)->set_values(Bytes(values));
}
v1::TensorHeader& Header(v1::SubmitUpdateRequest& update) {
  return *update.mutable_tensors(0)->mutable_header();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<BadUpdate> BadEntries() {
  return {
      {"IndexOutOfRange",
       [](auto& u) {
         SetIndices(u, {17, 812});
       },
       Code::kInvalidArgument,
       "INDEX_OUT_OF_RANGE",
       {"\"emb\"", "812", "entry 1", "800"}},
      {"IndexJustOutOfRange",
       [](auto& u) {
         SetIndices(u, {800, 3});
       },
       Code::kInvalidArgument,
       "INDEX_OUT_OF_RANGE",
       {"\"emb\"", "800", "entry 0"}},
      {"NegativeIndex",
       [](auto& u) {
         SetIndices(u, {17, -1});
       },
       Code::kInvalidArgument,
       "INDEX_OUT_OF_RANGE",
       {"\"emb\"", "-1", "entry 1"}},
      {"MostNegativeIndex",
       [](auto& u) {
         SetIndices(u, {INT64_MIN, 3});
       },
       Code::kInvalidArgument,
       "INDEX_OUT_OF_RANGE",
       {"\"emb\"", "entry 0"}},
      {"NanValue",
       [](auto& u) {
         SetValues(u, {1, kNan});
       },
       Code::kInvalidArgument,
       "NON_FINITE_VALUE",
       {"\"emb\"", "entry 1"}},
      {"InfiniteValue",
       [](auto& u) {
         SetValues(u, {kInf, 1});
       },
       Code::kInvalidArgument,
       "NON_FINITE_VALUE",
       {"\"emb\"", "entry 0"}},
      {"NegativeInfiniteValue",
       [](auto& u) {
         SetValues(u, {1, -kInf});
       },
       Code::kInvalidArgument,
       "NON_FINITE_VALUE",
       {"\"emb\"", "entry 1"}},
  };
}

std::vector<BadUpdate> BadSizes() {
  return {
      {"NnzTooHigh",
       [](auto& u) { Header(u).set_nnz(3); },
       Code::kInvalidArgument,
       "SIZE_MISMATCH",
       {"\"emb\"", "3"}},
      {"NnzTooLow",
       [](auto& u) { Header(u).set_nnz(1); },
       Code::kInvalidArgument,
       "SIZE_MISMATCH",
       {"\"emb\"", "1"}},
      {"NnzWhoseBytesOverflow",
       [](auto& u) { Header(u).set_nnz((uint64_t{1} << 61) + 2); },
       Code::kInvalidArgument,
       "",
       {"\"emb\""}},
      {"LargestNnz",
       [](auto& u) { Header(u).set_nnz(~uint64_t{0}); },
       Code::kInvalidArgument,
       "",
       {"\"emb\""}},
      {"TruncatedIndices",
       [](auto& u) { u.mutable_tensors(0)->mutable_indices()->pop_back(); },
       Code::kInvalidArgument,
       "SIZE_MISMATCH",
       {"\"emb\"", "15", "16"}},
      {"TruncatedValues",
       [](auto& u) { u.mutable_tensors(0)->mutable_values()->pop_back(); },
       Code::kInvalidArgument,
       "SIZE_MISMATCH",
       {"\"emb\"", "7", "8"}},
      {"NoValues",
       [](auto& u) { u.mutable_tensors(0)->clear_values(); },
       Code::kInvalidArgument,
       "SIZE_MISMATCH",
       {"\"emb\""}},
  };
}

std::vector<BadUpdate> BadHeaders() {
  return {
      {"WrongValueType",
       [](auto& u) { Header(u).set_value_type(v1::VALUE_TYPE_F64); },
       Code::kInvalidArgument,
       "TYPE_MISMATCH",
       {"\"emb\"", "f64", "f32"}},
      {"UnknownValueType",
       [](auto& u) { Header(u).set_value_type(static_cast<v1::ValueType>(77)); },
       Code::kInvalidArgument,
       "UNKNOWN_VALUE_TYPE",
       {"\"emb\"", "77"}},
      {"UnknownIndexType",
       [](auto& u) { Header(u).set_index_type(static_cast<v1::IndexType>(77)); },
       Code::kInvalidArgument,
       "UNKNOWN_INDEX_TYPE",
       {"\"emb\"", "77"}},
      {"WrongShape",
       [](auto& u) { Header(u).set_dense_shape(0, 801); },
       Code::kInvalidArgument,
       "SHAPE_MISMATCH",
       {"\"emb\"", "801", "800"}},
      {"WrongRank",
       [](auto& u) { Header(u).add_dense_shape(1); },
       Code::kInvalidArgument,
       "SHAPE_MISMATCH",
       {"\"emb\""}},
      {"WrongSparseDim",
       [](auto& u) { Header(u).set_sparse_dim(0); },
       Code::kInvalidArgument,
       "SHAPE_MISMATCH",
       {"\"emb\""}},
      {"UnknownEncoding",
       [](auto& u) { Header(u).set_encoding("coo.zip"); },
       Code::kInvalidArgument,
       "UNKNOWN_ENCODING",
       {"coo.zip", "coo.raw"}},
      {"UnknownTensor",
       [](auto& u) { Header(u).set_name("embedding"); },
       Code::kInvalidArgument,
       "UNKNOWN_TENSOR",
       {"\"embedding\""}},
      {"MissingTensor",
       [](auto& u) { u.clear_tensors(); },
       Code::kInvalidArgument,
       "MISSING_TENSOR",
       {"\"emb\""}},
      {"TensorTwice",
       [](auto& u) { *u.add_tensors() = v1::Tensor(u.tensors(0)); },
       Code::kInvalidArgument,
       "DUPLICATE_TENSOR",
       {"\"emb\""}},
      {"NoTensorHeader",
       [](auto& u) { u.mutable_tensors(0)->clear_header(); },
       Code::kInvalidArgument,
       "",
       {}},
  };
}

std::vector<BadUpdate> BadSenders() {
  const auto weight = [](float w) { return [w](auto& u) { u.mutable_header()->set_weight(w); }; };
  return {
      {"NegativeWeight", weight(-1), Code::kInvalidArgument, "INVALID_WEIGHT", {"-1"}},
      {"NanWeight", weight(kNan), Code::kInvalidArgument, "INVALID_WEIGHT", {"nan"}},
      {"InfiniteWeight", weight(kInf), Code::kInvalidArgument, "INVALID_WEIGHT", {"inf"}},
      {"NoContributor",
       [](auto& u) { u.mutable_header()->clear_contributor(); },
       Code::kInvalidArgument,
       "INVALID_CONTRIBUTOR",
       {"128"}},
      {"ContributorWithSpace",
       [](auto& u) { u.mutable_header()->set_contributor("a b"); },
       Code::kInvalidArgument,
       "INVALID_CONTRIBUTOR",
       {"a b"}},
      {"NoUpdateId",
       [](auto& u) { u.mutable_header()->clear_update_id(); },
       Code::kInvalidArgument,
       "INVALID_UPDATE_ID",
       {"64"}},
      {"UnknownRound",
       [](auto& u) { u.mutable_header()->set_round("rounds/nowhere"); },
       Code::kNotFound,
       "ROUND_NOT_FOUND",
       {"nowhere"}},
      {"NoHeader",
       [](auto& u) { u.clear_header(); },
       Code::kInvalidArgument,
       "INVALID_ROUND_NAME",
       {}},
  };
}

std::vector<BadUpdate> AllBadUpdates() {
  std::vector<BadUpdate> all;
  for (const auto& some : {BadEntries(), BadSizes(), BadHeaders(), BadSenders()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// All cases use one server, which has to survive them.
class SharedServer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new testing::ServerProcess;
    client_ = new testing::TestClient(testing::NewChannel(server_->address()));
  }
  static void TearDownTestSuite() {
    delete client_;
    delete server_;
  }

  static std::string NewRound() {
    return client_->Create(testing::VectorRound("emb", kRows))->name();
  }

  static void ExpectRefusal(const absl::Status& status, const BadUpdate& bad) {
    EXPECT_EQ(status.code(), bad.code) << status;
    if (bad.reason.empty()) {
      EXPECT_NE(ErrorReason(status), "") << status;
    } else {
      EXPECT_EQ(ErrorReason(status), bad.reason) << status;
    }
    const std::string message(status.message());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : bad.words) EXPECT_THAT(message, HasSubstr(word));
  }

  // Of all updates on the connection, only a valid one is counted.
  static void ExpectNothingCountedAndServerAlive(const std::string& round) {
    EXPECT_EQ(client_->Get(round)->contributors(), 0);
    EXPECT_EQ(client_->channel()->GetState(false), GRPC_CHANNEL_READY);
    ASSERT_TRUE(client_->Submit(GoodUpdate(round, "good")).ok());
    EXPECT_EQ(client_->Publish(round)->manifest().contributors(), 1);
    const auto answer = client_->Aggregate(round);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(testing::ArrayOf<int64_t>(answer->indices()), ::testing::ElementsAre(3, 17));
    EXPECT_THAT(testing::ArrayOf<float>(answer->values()), ::testing::ElementsAre(2, 1));
    EXPECT_TRUE(client_->Delete(round).ok());
  }

  static testing::ServerProcess* server_;
  static testing::TestClient* client_;
};
testing::ServerProcess* SharedServer::server_ = nullptr;
testing::TestClient* SharedServer::client_ = nullptr;

class BadUpdateTest : public SharedServer, public ::testing::WithParamInterface<BadUpdate> {};

TEST_P(BadUpdateTest, IsRefusedAsACall) {
  const std::string round = NewRound();
  v1::SubmitUpdateRequest update = GoodUpdate(round, "bad");
  GetParam().spoil(update);
  ExpectRefusal(client_->Submit(update).status(), GetParam());
  ExpectNothingCountedAndServerAlive(round);
}

TEST_P(BadUpdateTest, IsRefusedOnAStreamThatGoesOn) {
  const std::string round = NewRound();
  v1::StreamUpdatesRequest message;
  *message.mutable_update() = GoodUpdate(round, "bad");
  GetParam().spoil(*message.mutable_update());
  const auto context = testing::NewContext();
  const auto stream = client_->stub().StreamUpdates(context.get());
  ASSERT_TRUE(stream->Write(message));
  v1::StreamUpdatesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.has_error()) << response.DebugString();
  EXPECT_EQ(response.error().code(), static_cast<int>(GetParam().code));
  if (!GetParam().reason.empty()) {
    EXPECT_EQ(response.error().reason(), GetParam().reason);
  }
  for (const std::string& word : GetParam().words)
    EXPECT_THAT(response.error().message(), HasSubstr(word));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  ExpectNothingCountedAndServerAlive(round);
}

// The same bytes in chunks are refused when the update begins, when its bytes do not add up, or
// when it is complete.
TEST_P(BadUpdateTest, IsRefusedInChunks) {
  const std::string round = NewRound();
  v1::SubmitUpdateRequest update = GoodUpdate(round, "bad");
  GetParam().spoil(update);
  const testing::ChunkedUpdate chunked = testing::Chunked(update);
  const auto context = testing::NewContext();
  const auto stream = client_->stub().StreamUpdates(context.get());
  v1::StreamUpdatesRequest message;
  *message.mutable_begin() = chunked.begin;
  ASSERT_TRUE(stream->Write(message));
  *message.mutable_chunk() = testing::ChunkOf(chunked, 0, chunked.bytes.size());
  ASSERT_TRUE(stream->Write(message));
  stream->WritesDone();
  int errors = 0;
  v1::StreamUpdatesResponse response;
  while (stream->Read(&response)) {
    EXPECT_FALSE(response.has_receipt());
    if (!response.has_error()) continue;
    ++errors;
    EXPECT_EQ(response.error().code(), static_cast<int>(GetParam().code)) << response.DebugString();
    if (!GetParam().reason.empty()) {
      EXPECT_EQ(response.error().reason(), GetParam().reason);
    }
  }
  EXPECT_EQ(errors, 1);
  EXPECT_TRUE(stream->Finish().ok());
  ExpectNothingCountedAndServerAlive(round);
}

INSTANTIATE_TEST_SUITE_P(Matrix, BadUpdateTest, ::testing::ValuesIn(AllBadUpdates()),
                         [](const auto& info) { return info.param.name; });

class BadRoundTest : public SharedServer {
 protected:
  static v1::RoundSpec Spec(const std::function<void(v1::TensorSpec&)>& spoil) {
    v1::RoundSpec spec = testing::VectorRound("emb", kRows);
    spoil(*spec.mutable_tensors(0));
    return spec;
  }
  static void ExpectRefused(const v1::RoundSpec& spec, const std::string& reason,
                            const std::vector<std::string>& words) {
    const absl::Status status = client_->Create(spec).status();
    ExpectRefusal(status, {"", nullptr, Code::kInvalidArgument, reason, words});
    v1::ListRoundsResponse rounds;
    ASSERT_TRUE(client_->stub().ListRounds(testing::NewContext().get(), {}, &rounds).ok());
    EXPECT_EQ(rounds.rounds_size(), 0);
  }
};

TEST_F(BadRoundTest, UnknownOperator) {
  ExpectRefused(Spec([](auto& t) { t.set_op("median"); }), "UNKNOWN_OPERATOR",
                {"\"emb\"", "median", "sum"});
}

TEST_F(BadRoundTest, UnknownPlan) {
  ExpectRefused(Spec([](auto& t) { t.set_plan("magic"); }), "UNKNOWN_PLAN", {"magic"});
}

TEST_F(BadRoundTest, IndexSpaceOf2To63RowsOverflows) {
  ExpectRefused(Spec([](auto& t) {
                  t.set_dense_shape(0, int64_t{1} << 40);
                  t.add_dense_shape(int64_t{1} << 23);
                  t.set_sparse_dim(2);
                }),
                "INDEX_SPACE_TOO_LARGE", {"\"emb\"", "9223372036854775808"});
}

TEST_F(BadRoundTest, IndexSpaceBeyond64BitsOverflows) {
  ExpectRefused(Spec([](auto& t) {
                  for (int i = 0; i < 3; ++i) t.add_dense_shape(int64_t{1} << 62);
                  t.set_sparse_dim(4);
                }),
                "INDEX_SPACE_TOO_LARGE", {"\"emb\""});
}

TEST_F(BadRoundTest, NoTensors) { ExpectRefused(v1::RoundSpec(), "", {}); }

TEST_F(BadRoundTest, DimensionOfZero) {
  ExpectRefused(Spec([](auto& t) { t.set_dense_shape(0, 0); }), "INVALID_SPEC", {"\"emb\"", "0"});
}

TEST_F(BadRoundTest, SparseDimAboveTheRank) {
  ExpectRefused(Spec([](auto& t) { t.set_sparse_dim(2); }), "INVALID_SPEC", {"\"emb\"", "2"});
}

class BadTimeTest : public SharedServer {};

TEST_F(BadTimeTest, AnUpdateForASealedRound) {
  const std::string round = NewRound();
  ASSERT_TRUE(client_->Publish(round).ok());
  const absl::Status status = client_->Submit(GoodUpdate(round, "late")).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(status), "ROUND_NOT_OPEN");
  EXPECT_EQ(client_->Get(round)->manifest().contributors(), 0);
}

TEST_F(BadTimeTest, OtherBytesUnderTheSameUpdateId) {
  const std::string round = NewRound();
  v1::SubmitUpdateRequest update = GoodUpdate(round, "a");
  ASSERT_TRUE(client_->Submit(update).ok());
  SetValues(update, {5, 5});
  EXPECT_EQ(ErrorReason(client_->Submit(update).status()), "DIGEST_CONFLICT");
  EXPECT_EQ(client_->Publish(round)->manifest().contributors(), 1);
}

TEST_F(BadTimeTest, ASecondUpdateOfOneContributor) {
  const std::string round = NewRound();
  v1::SubmitUpdateRequest update = GoodUpdate(round, "a");
  ASSERT_TRUE(client_->Submit(update).ok());
  update.mutable_header()->set_update_id("second");
  const absl::Status status = client_->Submit(update).status();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_EQ(ErrorReason(status), "CONTRIBUTOR_ALREADY_COUNTED");
}

TEST_F(BadTimeTest, RefusalsAreCountedByReasonInTheManifest) {
  const std::string round = NewRound();
  v1::SubmitUpdateRequest update = GoodUpdate(round, "bad");
  SetIndices(update, {17, 812});
  EXPECT_FALSE(client_->Submit(update).ok());
  EXPECT_FALSE(client_->Submit(update).ok());
  const auto published = client_->Publish(round);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->manifest().rejected().at("INDEX_OUT_OF_RANGE"), 2);
}

TEST_F(BadTimeTest, AMessageAboveTheLimit) {
  const std::string round = NewRound();
  v1::SubmitUpdateRequest update = GoodUpdate(round, "bad");
  update.mutable_tensors(0)->set_values(std::string(17 << 20, '\0'));
  const absl::Status status = client_->Submit(update).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("16777216"));
  ExpectNothingCountedAndServerAlive(round);
}

}  // namespace
}  // namespace sparseagg
