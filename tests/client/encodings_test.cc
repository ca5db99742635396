// The encodings of updates and results between the client library and the real server.
#include <gmock/gmock.h>

#include "client/client.h"
#include "client/wire/encoded_update.h"
#include "tests/client/support.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::SameTensor;
using sparseagg::testing::TestServer;
using sparseagg::testing::ValuesOf;

const TensorSpec kEmb{"emb", ValueType::kF32, {1000, 2}, 1};

// Rows 0, 3, 6, ... in descending order, with values that every lossless encoding can hold.
Tensor Descending(uint64_t nnz) {
  std::vector<uint64_t> rows;
  std::vector<float> values;
  for (uint64_t i = nnz; i-- > 0;) {
    rows.push_back(3 * i);
    values.push_back(static_cast<float>(i % 7));
    values.push_back(-1);
  }
  return MakeTensor<float>(kEmb, rows, values);
}

Tensor Ascending(uint64_t nnz) {
  std::vector<uint64_t> rows;
  std::vector<float> values;
  for (uint64_t i = 0; i < nnz; ++i) {
    rows.push_back(3 * i);
    values.push_back(static_cast<float>(i % 7));
    values.push_back(-1);
  }
  return MakeTensor<float>(kEmb, rows, values);
}

Update From(const Tensor& tensor, const std::string& encoding, const std::string& values) {
  Update update;
  update.contributor = "c";
  update.tensors = {tensor.view()};
  update.encoding = encoding;
  update.values = values;
  return update;
}

std::unique_ptr<Client> ClientOf(const TestServer& server, ClientOptions options = {}) {
  return Client::Connect(server.address(), std::move(options)).value();
}

std::string NewRoundOf(Client& client) {
  NewRound round;
  round.tensors = {kEmb};
  return client.CreateRound(round).value().name;
}

Tensor Published(Client& client, const std::string& round, const std::string& encoding = "auto") {
  EXPECT_TRUE(client.Seal(round).ok());
  EXPECT_TRUE(client.Wait(round).ok());
  PullOptions options;
  options.encoding = encoding;
  return client.Pull(round, options).value().tensors.at(0);
}

TEST(EncodingsTest, EveryEncodingGivesTheSameResult) {
  TestServer server;
  for (const uint64_t unary_bytes_max : {uint64_t{1} << 20, uint64_t{0}}) {
    ClientOptions options;
    options.unary_bytes_max = unary_bytes_max;
    options.chunk_bytes = 700;
    const auto client = ClientOf(server, options);
    const Tensor sent = Descending(300);
    for (const auto& [encoding, values] : {std::pair{"auto", "auto"},
                                           {"coo.raw", "auto"},
                                           {"coo.packed", "raw"},
                                           {"coo.packed", "bf16"},
                                           {"coo.packed", "f16"}}) {
      const std::string round = NewRoundOf(*client);
      const auto receipt = client->Submit(round, From(sent, encoding, values));
      ASSERT_TRUE(receipt.ok()) << receipt.status();
      EXPECT_FALSE(receipt->duplicate);
      EXPECT_TRUE(client->Submit(round, From(sent, encoding, values))->duplicate);
      EXPECT_TRUE(SameTensor(Published(*client, round), Ascending(300))) << encoding << values;
      PullOptions raw;
      raw.encoding = "coo.raw";
      EXPECT_TRUE(SameTensor(client->Pull(round, raw)->tensors.at(0), Ascending(300)));
    }
  }
}

TEST(EncodingsTest, AReceiptSaysWhatWasChosen) {
  TestServer server;
  const auto client = ClientOf(server);
  const auto receipt = client->Submit(NewRoundOf(*client), From(Descending(300), "auto", "auto"));
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  ASSERT_EQ(receipt->encodings.size(), 1u);
  EXPECT_EQ(receipt->encodings[0].tensor, "emb");
  EXPECT_EQ(receipt->encodings[0].encoding, "coo.packed");
  EXPECT_EQ(receipt->encodings[0].values, "bf16");
  EXPECT_EQ(receipt->encodings[0].nnz, 300u);
  EXPECT_LT(receipt->encodings[0].bytes, 300u * 5);
}

TEST(EncodingsTest, RoundedValuesAreWhatCounts) {
  TestServer server;
  const auto client = ClientOf(server);
  const std::string round = NewRoundOf(*client);
  const Tensor tensor = MakeTensor<float>(kEmb, {5}, {127.0f, 0.4f});
  ASSERT_TRUE(client->Submit(round, From(tensor, "coo.packed", "int8")).ok());
  EXPECT_EQ(ValuesOf<float>(Published(*client, round)), (std::vector<float>{127, 0}));
}

TEST(EncodingsTest, AnOlderServerGetsWhatItKnows) {
  TestServer server({}, "127.0.0.1:0", {}, std::make_shared<CallObserver>(), {"coo.raw"});
  const auto client = ClientOf(server);
  const std::string round = NewRoundOf(*client);
  const auto receipt = client->Submit(round, From(Descending(300), "auto", "auto"));
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(receipt->encodings[0].encoding, "coo.raw");
  EXPECT_EQ(receipt->encodings[0].bytes, 300u * 12);
  EXPECT_TRUE(SameTensor(Published(*client, round), Ascending(300)));
}

TEST(EncodingsTest, ReduceTakesAndGivesPackedTensors) {
  TestServer server;
  const Tensor sent = Descending(300);
  const auto result = ClientOf(server)->Reduce(
      {kEmb}, std::vector<Update>{From(sent, "auto", "auto"), From(sent, "coo.packed", "f16")});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tensors[0].indices, Ascending(300).indices);
  EXPECT_EQ(ValuesOf<float>(result->tensors[0])[3], -2.0f);
}

TEST(EncodingsTest, ContributorsRoundDifferently) {
  const Tensor tensor = MakeTensor<float>(kEmb, {5, 6, 7, 8}, {1, 2.5, 3, 4, 5, 6, 7, 8});
  Update update = From(tensor, "coo.packed", "int4.stochastic");
  const std::string first = Encode("rounds/r", update)->pieces[1];
  EXPECT_EQ(Encode("rounds/r", update)->pieces[1], first) << "a retry has the same bytes";
  std::set<std::string> others;
  for (const char* contributor : {"a", "b", "d", "e", "f"}) {
    update.contributor = contributor;
    others.insert(Encode("rounds/r", update)->pieces[1]);
  }
  EXPECT_GT(others.size(), 1u);
}

TEST(EncodingsTest, RefusesARowThatTheShapeDoesNotHaveBeforeSendingIt) {
  const Tensor tensor = MakeTensor<float>(kEmb, {5, 1000}, {1, 2, 3, 4});
  for (const char* encoding : {"auto", "coo.raw", "coo.packed"}) {
    EXPECT_TRUE(HasError(Encode("", From(tensor, encoding, "auto")).status(), "INDEX_OUT_OF_RANGE",
                         "row 1000 at entry 1 is not below 1000"));
  }
}

}  // namespace
}  // namespace sparseagg::client
