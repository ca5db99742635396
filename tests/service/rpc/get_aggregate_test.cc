#include "service/rpc/result/get_aggregate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/convert.h"
#include "service/rpc/background.h"
#include "service/rpc/grpc_server.h"
#include "sparse/encoding.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

using testing::Answer;
using testing::ArrayOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::VectorEntries;
using testing::VectorRound;
using testing::VectorUpdate;

v1::IndexSelection Selection(const std::string& tensor, const std::vector<int64_t>& indices) {
  v1::IndexSelection selection;
  selection.set_tensor(tensor);
  selection.set_indices(testing::Bytes(indices));
  return selection;
}

// A published round with "emb" (f32 [2, 3, 2], two indexed dimensions, entries (0,1) and (1,2)) and
// "bias" (f32 [3], dense).
class GetAggregateTest : public testing::RpcTest {
 protected:
  void SetUp() override {
    v1::RoundSpec spec;
    v1::TensorSpec& emb = *spec.add_tensors();
    emb.set_name("emb");
    emb.set_value_type(v1::VALUE_TYPE_F32);
    for (const int64_t dim : {2, 3, 2}) emb.add_dense_shape(dim);
    emb.set_sparse_dim(2);
    v1::TensorSpec& bias = *spec.add_tensors();
    bias.set_name("bias");
    bias.set_value_type(v1::VALUE_TYPE_F32);
    bias.add_dense_shape(3);
    const auto round = client_.Create(spec, "r");
    ASSERT_TRUE(round.ok()) << round.status();

    v1::SubmitUpdateRequest update;
    update.mutable_header()->set_round("rounds/r");
    update.mutable_header()->set_contributor("a");
    update.mutable_header()->set_update_id("u");
    *update.add_tensors() = Entries(spec.tensors(0), 2, testing::Bytes<int64_t>({1, 2, 0, 1}),
                                    testing::Bytes<float>({5, 6, 7, 8}));
    *update.add_tensors() = Entries(spec.tensors(1), 1, "", testing::Bytes<float>({1, 2, 3}));
    const auto receipt = client_.Submit(update);
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    const auto published = client_.Publish("rounds/r");
    ASSERT_TRUE(published.ok()) << published.status();
    ASSERT_EQ(published->state(), v1::ROUND_STATE_PUBLISHED) << published->failure();
    request_.set_name("rounds/r");
  }

  static v1::Tensor Entries(const v1::TensorSpec& spec, uint64_t nnz, std::string indices,
                            std::string values) {
    v1::Tensor tensor;
    tensor.mutable_header()->set_name(spec.name());
    tensor.mutable_header()->set_value_type(spec.value_type());
    *tensor.mutable_header()->mutable_dense_shape() = spec.dense_shape();
    tensor.mutable_header()->set_sparse_dim(spec.sparse_dim());
    tensor.mutable_header()->set_nnz(nnz);
    tensor.set_indices(std::move(indices));
    tensor.set_values(std::move(values));
    return tensor;
  }

  void Select(const std::string& tensor, const std::vector<int64_t>& indices) {
    *request_.add_selections() = Selection(tensor, indices);
  }

  std::string ReasonOfRefusal() {
    const auto answer = client_.Aggregate(request_);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument) << answer.status();
    return ErrorReason(answer.status());
  }

  v1::GetAggregateRequest request_;
};

TEST_F(GetAggregateTest, SparseGivesSortedIndicesAndRows) {
  const auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->header.tensors_size(), 2);
  EXPECT_EQ(answer->header.round(), "rounds/r");
  EXPECT_EQ(answer->header.manifest().contributors(), 1);
  EXPECT_EQ(answer->header.tensors(0).nnz(), 2);
  EXPECT_THAT(ArrayOf<int64_t>(answer->indices(0)), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(ArrayOf<float>(answer->values(0)), ElementsAre(7, 8, 5, 6));
  EXPECT_EQ(answer->indices(1), "");
  EXPECT_THAT(ArrayOf<float>(answer->values(1)), ElementsAre(1, 2, 3));
}

// The entries of `tensor`, decoded from coo.packed.
std::vector<uint64_t> UnpackedRows(const Answer& answer, int tensor, const TensorSpec& spec) {
  const auto header = FromProto(answer.header.tensors(tensor));
  EXPECT_EQ(header->encoding, "coo.packed");
  EXPECT_TRUE(InspectTensor(*header, spec).ok());
  const TensorLayout layout = MakeLayout(spec).value();
  std::vector<uint64_t> rows(header->nnz);
  std::vector<std::byte> values(header->nnz * layout.row_bytes());
  const std::string indices = answer.indices(tensor);
  const std::string bytes = answer.values(tensor);
  const std::string_view index_piece = indices;
  const std::string_view value_piece = bytes;
  EXPECT_TRUE(FindEncoding("coo.packed")
                  .value()
                  ->decode(*header, spec, {&index_piece, 1}, {&value_piece, 1},
                           {layout, header->nnz, rows.data(), values.data()})
                  .ok());
  return rows;
}

TEST_F(GetAggregateTest, PackedIndicesComeInTheEncodingThatWasAskedFor) {
  request_.set_encoding("coo.packed");
  const TensorSpec spec{"emb", ValueType::kF32, {2, 3, 2}, 2};
  auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(UnpackedRows(*answer, 0, spec), ElementsAre(1, 5));
  EXPECT_THAT(ArrayOf<float>(answer->values(0)), ElementsAre(7, 8, 5, 6));
  EXPECT_EQ(answer->indices(1), "");
  EXPECT_THAT(ArrayOf<float>(answer->values(1)), ElementsAre(1, 2, 3));
  request_.add_tensors("emb");
  Select("emb", {1, 2, 0, 0, 1, 2});
  answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(UnpackedRows(*answer, 0, spec), ElementsAre(5));
}

TEST_F(GetAggregateTest, DenseGivesTheWholeShapeWithoutIndices) {
  request_.set_layout(v1::RESULT_LAYOUT_DENSE);
  const auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->header.tensors(0).dense_shape(), ElementsAre(2, 3, 2));
  EXPECT_EQ(answer->header.tensors(0).sparse_dim(), 0);
  EXPECT_EQ(answer->header.tensors(0).indices_bytes(), 0);
  EXPECT_THAT(ArrayOf<float>(answer->values(0)), ElementsAre(0, 0, 7, 8, 0, 0, 0, 0, 0, 0, 5, 6));
  EXPECT_THAT(ArrayOf<float>(answer->values(1)), ElementsAre(1, 2, 3));
}

TEST_F(GetAggregateTest, ASparseSelectionLeavesOutAbsentRows) {
  request_.add_tensors("emb");
  Select("emb", {1, 2, 0, 0, 0, 1, 1, 2});
  const auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header.tensors(0).nnz(), 2);
  EXPECT_THAT(ArrayOf<int64_t>(answer->indices()), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(ArrayOf<float>(answer->values()), ElementsAre(7, 8, 5, 6));
}

TEST_F(GetAggregateTest, ADenseSelectionHasOneRowForEachIndexInItsOrder) {
  request_.set_layout(v1::RESULT_LAYOUT_DENSE);
  request_.add_tensors("emb");
  Select("emb", {1, 2, 0, 0, 1, 2});
  const auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->header.tensors(0).dense_shape(), ElementsAre(3, 2));
  EXPECT_THAT(ArrayOf<float>(answer->values()), ElementsAre(5, 6, 0, 0, 5, 6));
}

TEST_F(GetAggregateTest, TensorsComeInTheOrderAskedFor) {
  request_.add_tensors("bias");
  request_.add_tensors("emb");
  const auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header.tensors(0).name(), "bias");
  EXPECT_THAT(ArrayOf<int64_t>(answer->indices(1)), ElementsAre(0, 1, 1, 2));
}

TEST_F(GetAggregateTest, ChunksHaveTheSizeAskedForAcrossTensors) {
  const auto whole = client_.Aggregate(request_);
  request_.set_chunk_bytes(7);
  const auto chunked = client_.Aggregate(request_);
  ASSERT_TRUE(whole.ok() && chunked.ok());
  EXPECT_EQ(whole->bytes, chunked->bytes);
  ASSERT_EQ(chunked->chunk_sizes.size(), (chunked->bytes.size() + 6) / 7);
  for (size_t i = 0; i + 1 < chunked->chunk_sizes.size(); ++i)
    EXPECT_EQ(chunked->chunk_sizes[i], 7);
}

// Large tensors, which are sent without a copy, next to small ones.
class LargeResultTest : public testing::RpcTest {
 protected:
  static constexpr int64_t kEntries = 60'000;

  void SetUp() override {
    v1::RoundSpec spec = VectorRound("first", 1'000'000);
    for (const char* name : {"small", "also small", "last"}) {
      *spec.add_tensors() = spec.tensors(0);
      spec.mutable_tensors()->rbegin()->set_name(name);
    }
    ASSERT_TRUE(client_.Create(spec, "r").ok());
    v1::SubmitUpdateRequest update;
    for (const v1::TensorSpec& tensor : spec.tensors()) {
      const bool large = tensor.name() == "first" || tensor.name() == "last";
      std::vector<int64_t> indices;
      std::vector<float> values;
      std::vector<float> dense(1'000'000);
      const int64_t stride = tensor.name() == "last" ? 1 : 13;
      for (int64_t i = 0; i < (large ? kEntries : 5); ++i) {
        indices.push_back(stride * i + tensor.name().front());
        values.push_back(static_cast<float>(i) + 0.5F);
        dense[indices.back()] = values.back();
      }
      expected_dense_ += testing::Bytes(dense);
      expected_ += testing::Bytes(indices) + testing::Bytes(values);
      update.MergeFrom(
          VectorUpdate("rounds/r", "a", VectorEntries(tensor.name(), 1'000'000, indices, values)));
    }
    ASSERT_TRUE(client_.Submit(update).ok());
    ASSERT_TRUE(client_.Publish("rounds/r").ok());
    request_.set_name("rounds/r");
  }

  v1::GetAggregateRequest request_;
  std::string expected_;
  std::string expected_dense_;
};

TEST_F(LargeResultTest, IsTheSameInChunksOfAnySize) {
  for (const uint32_t chunk_bytes : {0, 30'001, 100'003, 4 << 20}) {
    request_.set_chunk_bytes(chunk_bytes);
    const auto answer = client_.Aggregate(request_);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->bytes == expected_) << chunk_bytes;
  }
}

TEST_F(LargeResultTest, IsTheSameDense) {
  request_.set_layout(v1::RESULT_LAYOUT_DENSE);
  for (const uint32_t chunk_bytes : {0, 100'003}) {
    request_.set_chunk_bytes(chunk_bytes);
    const auto answer = client_.Aggregate(request_);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->bytes == expected_dense_) << chunk_bytes;
  }
}

// More than 64 KiB, so that the rows are found on another thread.
TEST_F(LargeResultTest, ALongSelectionIsAnsweredOrRefusedAsAShortOne) {
  std::vector<int64_t> rows(2 * kEntries);
  std::iota(rows.begin(), rows.end(), int64_t{'l'});
  request_.add_tensors("last");
  *request_.add_selections() = Selection("last", rows);
  auto answer = client_.Aggregate(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  rows.resize(kEntries);
  EXPECT_EQ(ArrayOf<int64_t>(answer->indices()), rows);
  EXPECT_TRUE(expected_.ends_with(answer->values()));
  rows.push_back(1'000'000);
  *request_.mutable_selections(0) = Selection("last", rows);
  answer = client_.Aggregate(request_);
  EXPECT_EQ(ErrorReason(answer.status()), "INDEX_OUT_OF_RANGE");
}

TEST_F(LargeResultTest, IsReadToItsEndAfterItsRoundWasDeleted) {
  request_.set_chunk_bytes(64 << 10);
  const auto context = testing::NewContext();
  const auto stream = client_.stub().GetAggregate(context.get(), request_);
  v1::GetAggregateResponse message;
  ASSERT_TRUE(stream->Read(&message));
  ASSERT_TRUE(message.has_header());
  ASSERT_TRUE(client_.Delete("rounds/r").ok());
  std::string bytes;
  while (stream->Read(&message)) bytes += message.chunk().data();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(bytes == expected_);
}

TEST_F(GetAggregateTest, NamesATensorThatIsNotInTheRound) {
  request_.add_tensors("embedding");
  EXPECT_EQ(ReasonOfRefusal(), "UNKNOWN_TENSOR");
}

TEST_F(GetAggregateTest, RefusesATensorAskedForTwice) {
  request_.add_tensors("emb");
  request_.add_tensors("emb");
  EXPECT_EQ(ReasonOfRefusal(), "DUPLICATE_TENSOR");
}

TEST_F(GetAggregateTest, RefusesASelectionOfATensorThatIsNotInTheAnswer) {
  request_.add_tensors("bias");
  Select("emb", {0, 0});
  EXPECT_EQ(ReasonOfRefusal(), "UNKNOWN_TENSOR");
}

TEST_F(GetAggregateTest, NamesTheEntryOfASelectedIndexOutOfRange) {
  Select("emb", {0, 0, 1, 3});
  const absl::Status refused = client_.Aggregate(request_).status();
  EXPECT_EQ(ErrorReason(refused), "INDEX_OUT_OF_RANGE");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("\"emb\": selected index 3 at entry 1, dimension 1"));
}

TEST_F(GetAggregateTest, RefusesANegativeSelectedIndex) {
  Select("emb", {-1, 0});
  EXPECT_EQ(ReasonOfRefusal(), "INDEX_OUT_OF_RANGE");
}

TEST_F(GetAggregateTest, RefusesHalfAnIndex) {
  Select("emb", {0, 0, 1});
  EXPECT_EQ(ReasonOfRefusal(), "INVALID_SELECTION");
}

TEST_F(GetAggregateTest, RefusesASelectionOfADenseTensor) {
  Select("bias", {});
  EXPECT_EQ(ReasonOfRefusal(), "INVALID_SELECTION");
}

TEST_F(GetAggregateTest, RefusesAnUnknownEncoding) {
  request_.set_encoding("coo.zip");
  EXPECT_EQ(ReasonOfRefusal(), "UNKNOWN_ENCODING");
}

TEST_F(GetAggregateTest, RefusesAnUnknownLayout) {
  request_.set_layout(static_cast<v1::ResultLayout>(9));
  EXPECT_EQ(ReasonOfRefusal(), "UNKNOWN_RESULT_LAYOUT");
}

TEST(GetAggregateLimitTest, ADenseAnswerAboveTheLimitIsRefusedAndASelectionIsNot) {
  Limits limits;
  limits.dense_result_bytes_max = 100;
  testing::TestServer server(limits);
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(VectorRound("t", 26), "r").ok());
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  v1::GetAggregateRequest request;
  request.set_name("rounds/r");
  request.set_layout(v1::RESULT_LAYOUT_DENSE);
  EXPECT_EQ(ErrorReason(client.Aggregate(request).status()), "RESULT_TOO_LARGE");
  v1::IndexSelection& selection = *request.add_selections();
  selection.set_tensor("t");
  selection.set_indices(testing::Bytes(std::vector<int64_t>(25)));
  EXPECT_EQ(client.Aggregate(request)->bytes, std::string(100, '\0'));
}

TEST(GetAggregateLimitTest, AHugeIndexSpaceIsRefusedAsDenseAndServedAsSparse) {
  testing::TestServer server;
  testing::TestClient client(testing::NewChannel(server.address()));
  const int64_t size = int64_t{1} << 62;
  ASSERT_TRUE(client.Create(VectorRound("t", size), "r").ok());
  ASSERT_TRUE(
      client.Submit(VectorUpdate("rounds/r", "a", VectorEntries("t", size, {size - 1}, {1}))).ok());
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  EXPECT_THAT(ArrayOf<int64_t>(client.Aggregate("rounds/r")->indices()), ElementsAre(size - 1));
  v1::GetAggregateRequest request;
  request.set_name("rounds/r");
  request.set_layout(v1::RESULT_LAYOUT_DENSE);
  EXPECT_EQ(ErrorReason(client.Aggregate(request).status()), "RESULT_TOO_LARGE");
}

TEST(GetAggregateStateTest, RefusesBeforePublication) {
  testing::TestServer server;
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(VectorRound("t", 10), "r").ok());
  const absl::Status refused = client.Aggregate("rounds/r").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(refused), "ROUND_NOT_PUBLISHED");
}

TEST(GetAggregateStateTest, AReaderKeepsTheResultOfARoundDeletedMeanwhile) {
  testing::TestServer server;
  testing::TestClient client(testing::NewChannel(server.address()));
  constexpr int64_t kSize = 4 << 20;
  ASSERT_TRUE(client.Create(VectorRound("t", kSize), "r").ok());
  ASSERT_TRUE(
      client.Submit(VectorUpdate("rounds/r", "a", VectorEntries("t", kSize, {kSize - 1}, {9})))
          .ok());
  ASSERT_TRUE(client.Publish("rounds/r").ok());

  v1::GetAggregateRequest request;
  request.set_name("rounds/r");
  request.set_layout(v1::RESULT_LAYOUT_DENSE);
  request.set_chunk_bytes(64 << 10);
  const auto context = testing::NewContext();
  const auto reader = client.stub().GetAggregate(context.get(), request);
  v1::GetAggregateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_TRUE(client.Delete("rounds/r").ok());
  std::string last;
  while (reader->Read(&response)) last = response.chunk().data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(ArrayOf<float>(last).back(), 9);
}

// Records the thread that requested a result last, which is the one that plans the answer.
class NotingEngine : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  absl::StatusOr<std::shared_ptr<const PublishedResult>> Result(std::string_view name) override {
    {
      const std::lock_guard lock(mutex_);
      pthread_getname_np(pthread_self(), thread_, sizeof(thread_));
    }
    return ForwardingEngine::Result(name);
  }
  std::string thread() {
    const std::lock_guard lock(mutex_);
    return thread_;
  }

 private:
  std::mutex mutex_;
  char thread_[16] = {};
};

TEST_F(GetAggregateTest, PlansALargePackedAnswerOnNoThreadThatAllCallsNeed) {
  NotingEngine noting(server_.engine());
  const auto grpc = GrpcServer::Start("127.0.0.1:0", noting, {}).value();
  testing::TestClient client(testing::NewChannel("127.0.0.1:" + std::to_string(grpc->port())));
  constexpr int64_t kRows = 200'000;
  for (const int64_t entries : {int64_t{100}, kRows / 2}) {
    const std::string id = "n" + std::to_string(entries);
    std::vector<int64_t> rows(entries);
    std::iota(rows.begin(), rows.end(), 0);
    ASSERT_TRUE(client.Create(VectorRound("t", kRows), id).ok());
    ASSERT_TRUE(client
                    .Submit(VectorUpdate(
                        "rounds/" + id, "a",
                        VectorEntries("t", kRows, rows, std::vector<float>(entries, 1.0f))))
                    .ok());
    ASSERT_TRUE(client.Publish("rounds/" + id).ok());
    v1::GetAggregateRequest request;
    request.set_name("rounds/" + id);
    request.set_encoding("coo.packed");
    const auto answer = client.Aggregate(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->header.tensors(0).nnz(), entries);
    EXPECT_EQ(noting.thread() == kBackgroundThreadName, entries > 100) << noting.thread();
  }
}

// GetPartial sends the bytes in chunks of the size that was asked for, from any offset.
TEST_F(GetAggregateTest, APartialAggregateIsSentInChunksFromAnOffset) {
  v1::RoundSpec spec = VectorRound("t", 1000);
  spec.set_publish_partial(true);
  ASSERT_TRUE(client_.Create(spec, "leaf").ok());
  std::vector<int64_t> rows(300);
  std::iota(rows.begin(), rows.end(), 0);
  ASSERT_TRUE(client_
                  .Submit(VectorUpdate("rounds/leaf", "a",
                                       VectorEntries("t", 1000, rows, std::vector<float>(300, 3))))
                  .ok());
  ASSERT_TRUE(client_.Publish("rounds/leaf").ok());
  const auto get = [&](uint64_t offset, uint32_t chunk_bytes, v1::PartialHeader* header,
                       std::vector<size_t>* chunks) {
    v1::GetPartialRequest request;
    request.set_name("rounds/leaf");
    request.set_offset(offset);
    request.set_chunk_bytes(chunk_bytes);
    const auto context = testing::NewContext();
    const auto stream = client_.stub().GetPartial(context.get(), request);
    v1::GetPartialResponse response;
    std::string bytes;
    while (stream->Read(&response)) {
      if (response.has_header()) *header = response.header();
      if (!response.has_chunk()) continue;
      EXPECT_EQ(response.chunk().offset(), offset + bytes.size());
      bytes += response.chunk().data();
      chunks->push_back(response.chunk().data().size());
    }
    return testing::FromGrpc(stream->Finish()).ok() ? bytes : "";
  };
  v1::PartialHeader header;
  std::vector<size_t> chunks;
  const std::string whole = get(0, 0, &header, &chunks);
  EXPECT_EQ(chunks.size(), 1u);
  EXPECT_EQ(header.bytes(), whole.size());
  EXPECT_EQ(header.digest(), whole.substr(whole.size() - 32));
  EXPECT_EQ(header.manifest().result_digest(), header.digest());
  EXPECT_EQ(header.manifest().contributors(), 1u);
  chunks.clear();
  EXPECT_EQ(get(10, 100, &header, &chunks), whole.substr(10));
  EXPECT_EQ(chunks.front(), 100u);
  EXPECT_EQ(get(whole.size(), 0, &header, &chunks), "");
  request_.set_name("rounds/leaf");
  EXPECT_EQ(ErrorReason(client_.Aggregate(request_).status()), "RESULT_IS_PARTIAL");

  v1::GetPartialRequest request;
  request.set_name("rounds/r");
  const auto context = testing::NewContext();
  const auto stream = client_.stub().GetPartial(context.get(), request);
  v1::GetPartialResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(ErrorReason(testing::FromGrpc(stream->Finish())), "RESULT_NOT_PARTIAL");
}

}  // namespace
}  // namespace sparseagg
