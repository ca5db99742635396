// Starts and stops the real server while calls of every kind are open. Its exit code is 0 each
// time, also with a sanitizer, whose reports change the exit code, and every call ends with a
// status that says why. SPARSEAGG_STOPS is the number of stops; ./dev check stops 200 times with
// each sanitizer.
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::TestClient;
using testing::VectorEntries;
using testing::VectorUpdate;

constexpr int64_t kSize = 1 << 20;

// Waits until the open call ends, and returns its status.
using End = std::function<absl::Status()>;

void CreateWithOneUpdate(TestClient& client, const std::string& id) {
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), id).ok());
  const auto receipt =
      client.Submit(VectorUpdate("rounds/" + id, "a", VectorEntries("t", kSize, {7, 9}, {1, 2})));
  ASSERT_TRUE(receipt.ok()) << receipt.status();
}

// The update has all rows, so that writing and reading it takes a while.
v1::SubmitUpdateRequest LargeUpdate(const std::string& id) {
  std::vector<int64_t> rows(kSize);
  std::iota(rows.begin(), rows.end(), 0);
  return VectorUpdate("rounds/" + id, "large",
                      VectorEntries("t", kSize, rows, std::vector<float>(kSize, 1)));
}

End LeaveRoundOpen(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  return [] { return absl::OkStatus(); };
}

End Watch(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  v1::WatchRoundRequest request;
  request.set_name("rounds/" + id);
  const std::shared_ptr<grpc::ClientContext> context = testing::NewContext();
  const std::shared_ptr reader = client.stub().WatchRound(context.get(), request);
  v1::Round round;
  EXPECT_TRUE(reader->Read(&round));
  return [context, reader, round]() mutable {
    while (reader->Read(&round)) continue;
    return testing::FromGrpc(reader->Finish());
  };
}

End Wait(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  struct Call {
    std::unique_ptr<grpc::ClientContext> context = testing::NewContext();
    v1::WaitRoundRequest request;
    v1::Round answer;
    std::promise<grpc::Status> ended;
  };
  const auto call = std::make_shared<Call>();
  call->request.set_name("rounds/" + id);
  client.stub().async()->WaitRound(
      call->context.get(), &call->request, &call->answer,
      [call](const grpc::Status& status) { call->ended.set_value(status); });
  EXPECT_TRUE(client.Get("rounds/" + id).ok());  // the server has heard of both
  return [call] { return testing::FromGrpc(call->ended.get_future().get()); };
}

End LeaveUploadHalf(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  const testing::ChunkedUpdate update = testing::Chunked(LargeUpdate(id));
  const std::shared_ptr<grpc::ClientContext> context = testing::NewContext();
  const std::shared_ptr stream = client.stub().StreamUpdates(context.get());
  v1::StreamUpdatesRequest message;
  v1::StreamUpdatesResponse progress;
  *message.mutable_begin() = update.begin;
  EXPECT_TRUE(stream->Write(message) && stream->Read(&progress));
  constexpr uint64_t kChunk = 1 << 20;
  for (uint64_t at = 0; at < update.bytes.size() / 2; at += kChunk) {
    *message.mutable_chunk() = testing::ChunkOf(update, at, kChunk);
    EXPECT_TRUE(stream->Write(message));
  }
  *message.mutable_begin() = update.begin;  // answered behind the chunks
  EXPECT_TRUE(stream->Write(message) && stream->Read(&progress));
  return [context, stream, progress]() mutable {
    while (stream->Read(&progress)) continue;
    return testing::FromGrpc(stream->Finish());
  };
}

End ReadResult(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  EXPECT_TRUE(client.Publish("rounds/" + id).ok());
  v1::GetAggregateRequest request;
  request.set_name("rounds/" + id);
  request.set_layout(v1::RESULT_LAYOUT_DENSE);
  const std::shared_ptr<grpc::ClientContext> context = testing::NewContext();
  const std::shared_ptr reader = client.stub().GetAggregate(context.get(), request);
  v1::GetAggregateResponse response;
  EXPECT_TRUE(reader->Read(&response));
  return [context, reader, response]() mutable {
    while (reader->Read(&response)) continue;
    return testing::FromGrpc(reader->Finish());
  };
}

// The stop happens while the result is computed and written.
End Publish(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  EXPECT_TRUE(client.Submit(LargeUpdate(id)).ok());
  EXPECT_TRUE(client.Seal("rounds/" + id).ok());
  return [] { return absl::OkStatus(); };
}

// Sends updates until the server refuses them or does not listen any more.
End KeepSubmitting(TestClient& client, const std::string& id) {
  CreateWithOneUpdate(client, id);
  const auto thread = std::make_shared<std::thread>([channel = client.channel(), id] {
    TestClient submitter(channel);
    absl::Status status;
    for (int64_t i = 0; status.ok(); ++i) {
      const auto tensor = VectorEntries("t", kSize, {i % kSize}, {1});
      status =
          submitter.Submit(VectorUpdate("rounds/" + id, absl::StrCat("b", i), tensor)).status();
    }
  });
  return [thread] {
    thread->join();
    return absl::OkStatus();
  };
}

// Sends a part of an update, for whose rest the server would wait longer than the stop may take.
End LeaveReduceHalf(TestClient& client, const std::string& id) {
  const std::shared_ptr<grpc::ClientContext> context = testing::NewContext();
  const std::shared_ptr stream = client.stub().Reduce(context.get());
  v1::ReduceRequest message;
  *message.mutable_start()->mutable_spec() = testing::VectorRound("t", kSize);
  EXPECT_TRUE(stream->Write(message));
  EXPECT_FALSE(client.Get("rounds/no-" + id).ok());  // the server has heard of both
  return [context, stream] {
    v1::ReduceResponse response;
    while (stream->Read(&response)) continue;
    return testing::FromGrpc(stream->Finish());
  };
}

struct Visit {
  const char* name;
  End (*begin)(TestClient& client, const std::string& id);
};
constexpr Visit kVisits[] = {
    {"open", &LeaveRoundOpen},    {"watch", &Watch},       {"wait", &Wait},
    {"upload", &LeaveUploadHalf}, {"result", &ReadResult}, {"publish", &Publish},
    {"submit", &KeepSubmitting},
};

// Opens the kinds of calls whose bit is set, each on a connection of its own.
std::vector<End> Begin(const std::string& address, uint32_t which, int start) {
  std::vector<End> ends;
  for (size_t v = 0; v < std::size(kVisits); ++v) {
    if ((which >> v & 1) == 0) continue;
    TestClient client(testing::NewChannel(address));
    ends.push_back(kVisits[v].begin(client, absl::StrCat(kVisits[v].name, "-", start)));
  }
  return ends;
}

std::string Names(uint32_t which) {
  std::string names = which == 0 ? "nothing" : "";
  for (size_t v = 0; v < std::size(kVisits); ++v) {
    if ((which >> v & 1) != 0) absl::StrAppend(&names, names.empty() ? "" : ", ", kVisits[v].name);
  }
  return names;
}

// Every other start uses the data directory of the durable starts before it.
TEST(LifeCycleTest, EndsWithZeroWhateverIsOpen) {
  constexpr uint32_t kAll = (1u << std::size(kVisits)) - 1;
  const int stops = testing::Effort("SPARSEAGG_STOPS", 8);
  testing::TemporaryFolder folder;
  std::mt19937 random(1);
  for (int i = 0; i < stops; ++i) {
    const uint32_t which = i == 0 ? 0 : i == 1 ? kAll : random() & kAll;
    SCOPED_TRACE(absl::StrCat("stop ", i, " with ", Names(which)));
    std::vector<std::string> arguments = {"--store-free-bytes-min=0"};
    if (i % 2 == 1) arguments.push_back("--data-dir=" + folder.path());
    if (i % 3 == 0) arguments.emplace_back("--admin-listen=127.0.0.1:0");
    testing::ServerProcess server(arguments);
    ASSERT_FALSE(server.address().empty()) << server.log();
    const std::vector<End> ends = Begin(server.address(), which, i);
    server.Signal(i % 4 < 2 ? SIGTERM : SIGINT);
    for (const End& end : ends) {
      const absl::Status status = end();
      EXPECT_TRUE(status.ok() || ErrorReason(status) == "SERVER_DRAINING") << status;
    }
    ASSERT_EQ(server.Wait(), 0) << server.log();
  }
}

TEST(LifeCycleTest, EndsWithZeroWhereTheTimeIsNotEnough) {
  constexpr uint32_t kAll = (1u << std::size(kVisits)) - 1;
  for (int i = 0; i < testing::Effort("SPARSEAGG_STOPS", 8); i += 4) {
    SCOPED_TRACE(absl::StrCat("stop ", i));
    testing::ServerProcess server({"--drain-timeout-ms=50"});
    ASSERT_FALSE(server.address().empty()) << server.log();
    TestClient client(testing::NewChannel(server.address()));
    const End reduce = LeaveReduceHalf(client, "reduce");
    const std::vector<End> ends = Begin(server.address(), kAll, i);
    server.Signal(SIGTERM);
    for (const End& end : ends) static_cast<void>(end());
    EXPECT_FALSE(reduce().ok());
    ASSERT_EQ(server.Wait(), 0) << server.log();
  }
}

}  // namespace
}  // namespace sparseagg
