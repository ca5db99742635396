// Every RPC with every role and without one, on a round of the caller's and of another tenant, over
// real connections. The expected permissions are read from the table of docs/security.md, so that
// the page and the server agree.
#include <gmock/gmock.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "service/auth/authenticator.h"
#include "service/auth/authorisation.h"
#include "service/auth/token.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {
namespace {

using Stub = v1::AggregationService::Stub;

std::unique_ptr<grpc::ClientContext> ContextWith(const std::string& token) {
  auto context = NewContext();
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
  return context;
}

template <typename Request, typename Response>
absl::Status Unary(Stub& stub, const std::string& token,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request) {
  Response response;
  return FromGrpc((stub.*method)(ContextWith(token).get(), request, &response));
}

// A call for a named round; `contributor` is the contributor of calls that send an update.
struct Target {
  std::string round;
  std::string contributor;
};
template <typename Request, typename Response>
absl::Status Named(Stub& stub, const std::string& token, const Target& target,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
  Request request;
  request.set_name(target.round);
  return Unary(stub, token, method, request);
}

v1::SubmitUpdateRequest UpdateFor(const Target& target) {
  v1::SubmitUpdateRequest update =
      VectorUpdate(target.round, target.contributor, VectorEntries("t", 10, {1}, {1.0f}));
  update.mutable_header()->set_update_id("u");
  return update;
}

absl::Status CallCreateRound(Stub& stub, const std::string& token, const Target&) {
  v1::CreateRoundRequest request;
  *request.mutable_spec() = VectorRound("t", 10);
  return Unary(stub, token, &Stub::CreateRound, request);
}
absl::Status CallListRounds(Stub& stub, const std::string& token, const Target&) {
  return Unary(stub, token, &Stub::ListRounds, v1::ListRoundsRequest());
}
absl::Status CallWatchRound(Stub& stub, const std::string& token, const Target& target) {
  v1::WatchRoundRequest request;
  request.set_name(target.round);
  const auto context = ContextWith(token);
  const auto stream = stub.WatchRound(context.get(), request);
  v1::Round round;
  if (!stream->Read(&round)) return FromGrpc(stream->Finish());
  context->TryCancel();
  stream->Finish();
  return absl::OkStatus();
}
absl::Status CallWaitRound(Stub& stub, const std::string& token, const Target& target) {
  v1::WaitRoundRequest request;
  request.set_name(target.round);
  request.mutable_timeout()->set_nanos(1'000'000);
  return Unary(stub, token, &Stub::WaitRound, request);
}
absl::Status CallSubmitUpdate(Stub& stub, const std::string& token, const Target& target) {
  return Unary(stub, token, &Stub::SubmitUpdate, UpdateFor(target));
}
// The error of the stream, or that of its only update.
absl::Status Stream(Stub& stub, const std::string& token, const v1::StreamUpdatesRequest& message) {
  const auto context = ContextWith(token);
  const auto stream = stub.StreamUpdates(context.get());
  stream->Write(message);
  stream->WritesDone();
  v1::StreamUpdatesResponse response;
  absl::Status error;
  while (stream->Read(&response)) {
    if (!response.has_error() || !error.ok()) continue;
    error = MakeError(static_cast<absl::StatusCode>(response.error().code()),
                      response.error().reason(), response.error().message());
  }
  const absl::Status end = FromGrpc(stream->Finish());
  return end.ok() ? error : end;
}
absl::Status CallStreamUpdates(Stub& stub, const std::string& token, const Target& target) {
  v1::StreamUpdatesRequest message;
  *message.mutable_update() = UpdateFor(target);
  return Stream(stub, token, message);
}
absl::Status CallStreamUpdatesInChunks(Stub& stub, const std::string& token, const Target& target) {
  v1::StreamUpdatesRequest message;
  *message.mutable_begin() = Chunked(UpdateFor(target)).begin;
  const absl::Status status = Stream(stub, token, message);
  // It was begun, which is what the test checks.
  return ErrorReason(status) == "UPLOAD_INCOMPLETE" ? absl::OkStatus() : status;
}
absl::Status CallUploadChunk(Stub& stub, const std::string& token, const Target& target) {
  v1::UploadChunkRequest request;
  *request.mutable_begin() = Chunked(UpdateFor(target)).begin;
  return Unary(stub, token, &Stub::UploadChunk, request);
}
absl::Status CallReadResult(Stub& stub, const std::string& token, const Target& target) {
  v1::ReadResultRequest request;
  request.mutable_result()->set_name(target.round);
  const absl::Status status = Unary(stub, token, &Stub::ReadResult, request);
  return ErrorReason(status) == "ROUND_NOT_PUBLISHED" ? absl::OkStatus() : status;
}
absl::Status CallGetAggregate(Stub& stub, const std::string& token, const Target& target) {
  v1::GetAggregateRequest request;
  request.set_name(target.round);
  const auto context = ContextWith(token);
  const auto stream = stub.GetAggregate(context.get(), request);
  v1::GetAggregateResponse response;
  while (stream->Read(&response)) continue;
  const absl::Status status = FromGrpc(stream->Finish());
  return ErrorReason(status) == "ROUND_NOT_PUBLISHED" ? absl::OkStatus() : status;
}
absl::Status CallGetPartial(Stub& stub, const std::string& token, const Target& target) {
  v1::GetPartialRequest request;
  request.set_name(target.round);
  const auto context = ContextWith(token);
  const auto stream = stub.GetPartial(context.get(), request);
  v1::GetPartialResponse response;
  while (stream->Read(&response)) continue;
  const absl::Status status = FromGrpc(stream->Finish());
  return ErrorReason(status) == "ROUND_NOT_PUBLISHED" ? absl::OkStatus() : status;
}
absl::Status CallSubmitPartial(Stub& stub, const std::string& token, const Target& target) {
  v1::SubmitPartialRequest request;
  *request.mutable_header() = UpdateFor(target).header();
  request.set_partial("not one");
  const absl::Status status = Unary(stub, token, &Stub::SubmitPartial, request);
  return ErrorReason(status) == "INVALID_PARTIAL" ? absl::OkStatus() : status;
}
// The same over StreamUpdates, as a whole and in chunks: a caller that may only send its own
// updates may not send those of others in this form.
absl::Status CallSubmitPartialAsUpdate(Stub& stub, const std::string& token, const Target& target) {
  v1::SubmitUpdateRequest update;
  *update.mutable_header() = UpdateFor(target).header();
  v1::Tensor& tensor = *update.add_tensors();
  tensor.mutable_header()->set_encoding("partial.v1");
  tensor.mutable_header()->set_value_type(v1::VALUE_TYPE_F32);
  tensor.set_values("not one");
  v1::StreamUpdatesRequest message;
  *message.mutable_update() = update;
  const absl::Status whole = Stream(stub, token, message);
  if (ErrorReason(whole) != "INVALID_PARTIAL") return whole;
  *message.mutable_begin() = Chunked(update).begin;
  const absl::Status chunked = Stream(stub, token, message);
  return ErrorReason(chunked) == "UPLOAD_INCOMPLETE" ? absl::OkStatus() : chunked;
}
absl::Status CallReduce(Stub& stub, const std::string& token, const Target&) {
  const auto context = ContextWith(token);
  const auto stream = stub.Reduce(context.get());
  v1::ReduceRequest start;
  *start.mutable_start()->mutable_spec() = VectorRound("t", 10);
  stream->Write(start);
  stream->WritesDone();
  v1::ReduceResponse response;
  while (stream->Read(&response)) continue;
  return FromGrpc(stream->Finish());
}
absl::Status CallGetServerInfo(Stub& stub, const std::string& token, const Target&) {
  return Unary(stub, token, &Stub::GetServerInfo, v1::GetServerInfoRequest());
}

struct Rpc {
  std::string name;
  std::function<absl::Status(Stub&, const std::string& token, const Target&)> call;
  bool about_a_round = true;
};

const std::vector<Rpc>& Rpcs() {
  static const auto& rpcs = *new std::vector<Rpc>{
      {"CreateRound", CallCreateRound, false},
      {"GetRound", [](Stub& s, const std::string& t,
                      const Target& r) { return Named(s, t, r, &Stub::GetRound); }},
      {"ListRounds", CallListRounds, false},
      {"SealRound", [](Stub& s, const std::string& t,
                       const Target& r) { return Named(s, t, r, &Stub::SealRound); }},
      {"AbortRound", [](Stub& s, const std::string& t,
                        const Target& r) { return Named(s, t, r, &Stub::AbortRound); }},
      {"DeleteRound",
       [](Stub& s, const std::string& t, const Target& r) {
         const absl::Status status = Named(s, t, r, &Stub::DeleteRound);
         return ErrorReason(status) == "ROUND_NOT_FINAL" ? absl::OkStatus() : status;
       }},
      {"WatchRound", CallWatchRound},
      {"WaitRound", CallWaitRound},
      {"SubmitUpdate", CallSubmitUpdate},
      {"StreamUpdates", CallStreamUpdates},
      {"StreamUpdates", CallStreamUpdatesInChunks},
      {"UploadChunk", CallUploadChunk},
      {"GetAggregate", CallGetAggregate},
      {"ReadResult", CallReadResult},
      {"GetPartial", CallGetPartial},
      {"SubmitPartial", CallSubmitPartial},
      {"SubmitPartial", CallSubmitPartialAsUpdate},
      {"VerifyRound",
       [](Stub& s, const std::string& t, const Target& r) {
         const absl::Status status = Named(s, t, r, &Stub::VerifyRound);
         return ErrorReason(status) == "ROUND_NOT_PUBLISHED" ? absl::OkStatus() : status;
       }},
      {"Reduce", CallReduce, false},
      {"GetServerInfo", CallGetServerInfo, false},
  };
  return rpcs;
}

// The rows of the table in docs/security.md: the columns that say "yes", by RPC.
std::map<std::string, std::set<std::string>> DocumentedTable() {
  std::ostringstream text;
  text << std::ifstream(SPARSEAGG_SOURCE_DIR "/docs/security.md").rdbuf();
  std::map<std::string, std::set<std::string>> table;
  std::vector<std::string> columns;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text.str(), '\n'))) {
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    if (line.starts_with("| call | operator")) columns = cells;
    if (!line.starts_with("| `") || columns.empty()) {
      if (line.empty()) columns.clear();
      continue;
    }
    std::set<std::string>& row = table[cells.at(1).substr(1, cells.at(1).size() - 2)];
    for (size_t i = 2; i < cells.size(); ++i) {
      if (cells[i] == "yes") row.insert(columns.at(i));
    }
  }
  return table;
}

class AuthorisationMatrixTest : public ::testing::Test {
 protected:
  AuthorisationMatrixTest() {
    std::string rows;
    for (const std::string tenant : {"acme", "umbrella"}) {
      for (const Role role : kAllRoles) {
        const std::string name(RoleName(role));
        absl::StrAppend(&rows, rows.empty() ? "" : ",",
                        Row(tenant + name, tenant, name + "-1", name));
      }
    }
    absl::StrAppend(&rows, ",", Row("old", "acme", "old", "owner", "2001-01-01T00:00:00Z"));
    const std::string path = folder_.path() + "/credentials";
    std::ofstream(path) << "{\"credentials\": [" << rows << "]}";
    authenticator_ = Authenticator::Open({.credentials_file = path}).value();
    ServerSecurity security{.authenticator = authenticator_.get()};
    security.limits_of = [this](std::string_view tenant) {
      if (tenant != "umbrella") return TenantLimits{};
      return TenantLimits{.streams_max = 1, .waits_max = umbrella_waits_max_.load()};
    };
    security.on_refused = [this](std::string_view rpc, const std::string&,
                                 const absl::Status& why) {
      const std::lock_guard lock(mutex_);
      refused_calls_.push_back(absl::StrCat(std::string(rpc), " ", ErrorReason(why)));
    };
    server_ = std::make_unique<TestServer>(Limits(), "127.0.0.1:0", std::move(security));
    channel_ = NewChannel(server_->address());
    stub_ = v1::AggregationService::NewStub(channel_);
  }
  static std::string Row(const std::string& token, const std::string& tenant,
                         const std::string& principal, const std::string& role,
                         const std::string& expires = "2100-01-01T00:00:00Z") {
    return absl::StrCat("{\"token_sha256\": \"", ToHex(DigestOf(token)), "\", \"tenant\": \"",
                        tenant, "\", \"principal\": \"", principal, "\", \"roles\": [\"", role,
                        "\"], \"expires\": \"", expires, "\"}");
  }
  // A new round of the tenant.
  std::string Round(const std::string& tenant) {
    v1::CreateRoundRequest request;
    *request.mutable_spec() = VectorRound("t", 10);
    request.set_round_id(absl::StrCat("round-", ++rounds_));
    v1::Round round;
    const grpc::Status status =
        stub_->CreateRound(ContextWith(tenant + "owner").get(), request, &round);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return round.name();
  }

  std::vector<std::string> RefusedCalls() {
    const std::lock_guard lock(mutex_);
    return refused_calls_;
  }

  std::mutex mutex_;
  std::vector<std::string> refused_calls_;  // RPC and reason
  TemporaryFolder folder_;
  std::atomic<uint64_t> umbrella_waits_max_ = 0;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<TestServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
  int rounds_ = 0;
};

TEST_F(AuthorisationMatrixTest, TheDocumentedTableIsThatOfTheCode) {
  const auto documented = DocumentedTable();
  ASSERT_EQ(documented.size(), RpcRules().size());
  for (const RpcRule& rule : RpcRules()) {
    const auto row = documented.find(std::string(rule.rpc));
    ASSERT_NE(row, documented.end()) << rule.rpc;
    for (const Role role : kAllRoles) {
      EXPECT_EQ(row->second.contains(std::string(RoleName(role))),
                rule.anyone || rule.roles.Has(role))
          << rule.rpc;
    }
    EXPECT_EQ(row->second.contains("without a credential"), rule.anyone) << rule.rpc;
  }
}

TEST_F(AuthorisationMatrixTest, EveryRpcIsInTheMatrix) {
  std::set<std::string> names;
  for (const Rpc& rpc : Rpcs()) names.insert(rpc.name);
  const auto* service = v1::GetServerInfoRequest::descriptor()->file()->service(0);
  EXPECT_EQ(names.size(), static_cast<size_t>(service->method_count()));
}

TEST_F(AuthorisationMatrixTest, WithoutAGoodCredentialNothingIsAnswered) {
  const std::string round = Round("acme");
  const std::map<std::string, std::string> credentials = {
      {"", "CREDENTIALS_MISSING"}, {"nobody's", "TOKEN_INVALID"}, {"old", "TOKEN_EXPIRED"}};
  for (const Rpc& rpc : Rpcs()) {
    for (const auto& [token, reason] : credentials) {
      for (const std::string& name : {round, std::string("rounds/nowhere"), std::string("?")}) {
        const absl::Status status = rpc.call(*stub_, token, {name, "contributor-1"});
        EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << rpc.name << " " << status;
        EXPECT_EQ(ErrorReason(status), reason) << rpc.name;
      }
    }
  }
}

TEST_F(AuthorisationMatrixTest, EachRoleMayDoWhatTheTableSaysAndNothingElse) {
  const auto table = DocumentedTable();
  for (const Rpc& rpc : Rpcs()) {
    for (const Role role : kAllRoles) {
      const std::string name(RoleName(role));
      SCOPED_TRACE(rpc.name + " as " + name);
      const Target own{Round("acme"), "contributor-1"};
      const absl::Status status = rpc.call(*stub_, "acme" + name, own);
      const bool sends =
          rpc.name == "SubmitUpdate" || rpc.name == "StreamUpdates" || rpc.name == "UploadChunk";
      if (role == Role::kWorker && sends) {
        // task_service_test.cc has a worker that holds the contributor's task.
        EXPECT_EQ(ErrorReason(status), "CONTRIBUTOR_NOT_YOURS");
      } else if (role == Role::kWorker && rpc.name == "SubmitPartial") {
        // As the body of an update, it is refused for its contributor first.
        EXPECT_THAT(ErrorReason(status), ::testing::AnyOf("ROLE_MISSING", "CONTRIBUTOR_NOT_YOURS"));
      } else if (table.at(rpc.name).contains(name)) {
        EXPECT_TRUE(status.ok()) << status;
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
        EXPECT_EQ(ErrorReason(status), "ROLE_MISSING");
      }
    }
  }
}

TEST_F(AuthorisationMatrixTest, AnotherTenantsRoundIsAnsweredAsOneThatDoesNotExist) {
  for (const Rpc& rpc : Rpcs()) {
    if (!rpc.about_a_round) continue;
    for (const Role role : kAllRoles) {
      const std::string name(RoleName(role));
      SCOPED_TRACE(rpc.name + " as " + name);
      const std::string theirs = Round("umbrella");
      // The names have the same length, so that the answers can be compared.
      const std::string nobodys = theirs.substr(0, theirs.size() - 1) + "x";
      const absl::Status about_theirs = rpc.call(*stub_, "acme" + name, {theirs, "contributor-1"});
      const absl::Status about_nobodys =
          rpc.call(*stub_, "acme" + name, {nobodys, "contributor-1"});
      EXPECT_FALSE(about_theirs.ok());
      EXPECT_EQ(about_theirs.code(), about_nobodys.code());
      EXPECT_EQ(ErrorReason(about_theirs), ErrorReason(about_nobodys));
      EXPECT_EQ(about_theirs.message().size(), about_nobodys.message().size())
          << about_theirs << " and " << about_nobodys;
      // The round of the other tenant is unchanged.
      v1::GetRoundRequest request;
      request.set_name(theirs);
      v1::Round round;
      ASSERT_TRUE(stub_->GetRound(ContextWith("umbrellareader").get(), request, &round).ok());
      EXPECT_EQ(round.state(), v1::ROUND_STATE_OPEN);
      EXPECT_EQ(round.contributors(), 0u);
    }
  }
}

TEST_F(AuthorisationMatrixTest, ListsAndRequestIdsAreOnesOwn) {
  const std::string theirs = Round("umbrella");
  v1::ListRoundsResponse rounds;
  ASSERT_TRUE(stub_->ListRounds(ContextWith("acmereader").get(), {}, &rounds).ok());
  EXPECT_EQ(rounds.rounds_size(), 0);
  v1::CreateRoundRequest request;
  *request.mutable_spec() = VectorRound("t", 10);
  request.set_request_id("same");
  v1::Round of_acme;
  v1::Round of_umbrella;
  ASSERT_TRUE(stub_->CreateRound(ContextWith("acmeowner").get(), request, &of_acme).ok());
  *request.mutable_spec() = VectorRound("t", 20);
  ASSERT_TRUE(stub_->CreateRound(ContextWith("umbrellaowner").get(), request, &of_umbrella).ok());
  EXPECT_EQ(of_umbrella.spec().tensors(0).dense_shape(0), 20);
}

TEST_F(AuthorisationMatrixTest, ATenantsStreamsAreLimitedAndCountedApart) {
  const Target theirs{Round("umbrella"), "c"};
  const auto context = ContextWith("umbrellaowner");
  const auto stream = stub_->StreamUpdates(context.get());
  v1::StreamUpdatesRequest message;
  *message.mutable_update() = UpdateFor(theirs);
  ASSERT_TRUE(stream->Write(message));
  v1::StreamUpdatesResponse response;
  ASSERT_TRUE(stream->Read(&response)) << "it is under way";
  const absl::Status full = CallStreamUpdates(*stub_, "umbrellaowner", theirs);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(full), "TENANT_STREAMS_FULL");
  EXPECT_GT(RetryAfterMs(full), 0u);
  EXPECT_TRUE(CallStreamUpdates(*stub_, "acmeowner", {Round("acme"), "c"}).ok());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  // The place becomes free shortly after the answer.
  absl::Status again = full;
  for (int i = 0; i < 10'000 && !again.ok(); ++i) {
    again = CallStreamUpdates(*stub_, "umbrellaowner", theirs);
  }
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(AuthorisationMatrixTest, ATenantsWaitsAreLimitedAndCountedApart) {
  umbrella_waits_max_ = 2;
  const Target theirs{Round("umbrella"), "c"};
  v1::WatchRoundRequest request;
  request.set_name(theirs.round);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::Round>>> watches;
  for (int i = 0; i < 2; ++i) {
    contexts.push_back(ContextWith("umbrellareader"));
    watches.push_back(stub_->WatchRound(contexts.back().get(), request));
    v1::Round round;
    ASSERT_TRUE(watches.back()->Read(&round)) << "it is under way";
  }
  for (const auto& call : {CallWatchRound, CallWaitRound}) {
    const absl::Status full = call(*stub_, "umbrellareader", theirs);
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ErrorReason(full), "TENANT_WAITS_FULL");
    EXPECT_THAT(full.message(), ::testing::HasSubstr("tenant-waits-max = 2"));
    EXPECT_GT(RetryAfterMs(full), 0u);
  }
  EXPECT_TRUE(CallWaitRound(*stub_, "acmereader", {Round("acme"), "c"}).ok());
  contexts.front()->TryCancel();
  v1::Round round;
  while (watches.front()->Read(&round)) {
  }
  watches.front()->Finish();
  // The place becomes free shortly after the end.
  absl::Status again = absl::UnknownError("");
  for (int i = 0; i < 10'000 && !again.ok(); ++i) {
    again = CallWaitRound(*stub_, "umbrellareader", theirs);
  }
  EXPECT_TRUE(again.ok()) << again;
  contexts.back()->TryCancel();
  watches.back()->Finish();
}

TEST_F(AuthorisationMatrixTest, ContributorsSendInTheirOwnNameAndOwnersForEverybody) {
  size_t refusals = 0;
  for (const auto& call :
       {CallSubmitUpdate, CallStreamUpdates, CallStreamUpdatesInChunks, CallUploadChunk}) {
    const std::string round = Round("acme");
    for (const std::string other : {"contributor-2", "contributor-10", "owner-1"}) {
      const absl::Status refused = call(*stub_, "acmecontributor", {round, other});
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_EQ(ErrorReason(refused), "CONTRIBUTOR_NOT_YOURS");
      EXPECT_EQ(RefusedCalls().size(), ++refusals);
      EXPECT_THAT(RefusedCalls().back(), ::testing::AnyOf("SubmitUpdate CONTRIBUTOR_NOT_YOURS",
                                                          "StreamUpdates CONTRIBUTOR_NOT_YOURS",
                                                          "UploadChunk CONTRIBUTOR_NOT_YOURS"));
      const absl::Status nowhere = call(*stub_, "acmecontributor", {"rounds/nowhere", other});
      ++refusals;
      EXPECT_EQ(nowhere, refused) << "it does not tell which rounds there are";
      EXPECT_TRUE(call(*stub_, "acmeowner", {round, other}).ok());
    }
    EXPECT_TRUE(call(*stub_, "acmecontributor", {round, "contributor-1"}).ok());
    EXPECT_TRUE(call(*stub_, "acmecontributor", {round, "contributor-1/app"}).ok());
  }
}

// A method of another service, called without its generated code. The messages that matter here
// have one number as their first field, like UploadProgress.
grpc::Status CallByName(grpc::Channel& channel, const char* name, v1::UploadProgress* answer) {
  const grpc::internal::RpcMethod method(name, grpc::internal::RpcMethod::NORMAL_RPC);
  return grpc::internal::BlockingUnaryCall<google::protobuf::MessageLite,
                                           google::protobuf::MessageLite>(
      &channel, method, NewContext().get(), v1::GetServerInfoRequest(), answer);
}

TEST_F(AuthorisationMatrixTest, HealthIsForEverybodyAndReflectionIsNotThere) {
  constexpr uint64_t kServing = 1;
  v1::UploadProgress answer;
  const grpc::Status health = CallByName(*channel_, "/grpc.health.v1.Health/Check", &answer);
  EXPECT_TRUE(health.ok()) << health.error_message();
  EXPECT_EQ(answer.committed_offset(), kServing);
  const grpc::Status reflection = CallByName(
      *channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &answer);
  EXPECT_EQ(reflection.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace sparseagg::testing
