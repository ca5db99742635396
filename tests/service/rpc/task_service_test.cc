#include "service/rpc/tasks/task_service.h"

#include <gmock/gmock.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/auth/authenticator.h"
#include "service/auth/authorisation.h"
#include "service/auth/token.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {
namespace {

using Stub = v1::TaskService::Stub;

template <typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, const std::string& token = "") {
  const auto context = NewContext();
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
  Response response;
  const absl::Status status = FromGrpc((stub.*method)(context.get(), request, &response));
  if (!status.ok()) return status;
  return response;
}

v1::CreateTasksRequest TasksFor(const std::string& id, const std::string& round, uint32_t count) {
  v1::CreateTasksRequest request;
  v1::TaskGroupSpec& group = *request.add_groups();
  group.set_group_id(id);
  group.set_pool("pool");
  group.set_round(round);
  group.set_count(count);
  group.set_payload("work");
  return request;
}

v1::AcquireTasksRequest Acquisition(const std::string& worker, uint32_t max = 1) {
  v1::AcquireTasksRequest request;
  request.set_worker(worker);
  request.add_pools("pool");
  request.set_max(max);
  return request;
}

v1::SubmitUpdateRequest UpdateOf(const std::string& round, const std::string& contributor) {
  auto update = VectorUpdate(round, contributor, VectorEntries("t", 10, {1}, {1.0f}));
  update.mutable_header()->set_update_id("u");
  return update;
}

class TaskServiceTest : public RpcTest {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Create(VectorRound("t", 10), "r").ok()); }

  // The update of the task's contributor is counted.
  v1::Receipt Submit(const v1::Task& task) {
    const auto receipt = client_.Submit(UpdateOf(task.round(), task.contributor()));
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    return receipt.ok() ? *receipt : v1::Receipt();
  }
  absl::StatusOr<v1::TaskGroup> Wait(uint64_t after_revision, int64_t seconds) {
    v1::WaitTasksRequest request;
    request.set_group("taskgroups/g");
    request.set_after_revision(after_revision);
    request.mutable_timeout()->set_seconds(seconds);
    return Call(*stub_, &Stub::WaitTasks, request);
  }

  const std::unique_ptr<Stub> stub_ = v1::TaskService::NewStub(NewChannel(server_.address()));
};

TEST_F(TaskServiceTest, ATaskGoesFromItsOwnerThroughAWorkerToTheRound) {
  const auto created = Call(*stub_, &Stub::CreateTasks, TasksFor("g", "rounds/r", 2));
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->groups(0).tasks(), 2u);
  EXPECT_EQ(created->groups(0).durability(), v1::DURABILITY_MEMORY);

  const auto acquired = Call(*stub_, &Stub::AcquireTasks, Acquisition("w", 5));
  ASSERT_TRUE(acquired.ok()) << acquired.status();
  ASSERT_EQ(acquired->tasks_size(), 2);
  EXPECT_FALSE(acquired->has_retry());
  const v1::Task& task = acquired->tasks(0);
  EXPECT_EQ(task.payload(), "work");
  EXPECT_EQ(task.lease().duration().seconds(), 60);
  const auto nothing = Call(*stub_, &Stub::AcquireTasks, Acquisition("w"));
  EXPECT_EQ(nothing->tasks_size(), 0);
  EXPECT_GT(nothing->retry().max().nanos(), 0);

  v1::RenewTasksRequest renew;
  *renew.add_leases() = task.lease();
  *renew.add_leases() = acquired->tasks(1).lease();
  renew.mutable_leases(1)->set_token(1);
  const auto renewed = Call(*stub_, &Stub::RenewTasks, renew);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_FALSE(renewed->leases(0).has_error());
  EXPECT_EQ(renewed->leases(1).error().reason(), "TASK_FENCED");

  v1::CompleteTaskRequest complete;
  *complete.mutable_lease() = task.lease();
  EXPECT_EQ(ErrorReason(Call(*stub_, &Stub::CompleteTask, complete).status()), "RECEIPT_MISMATCH");
  *complete.mutable_receipt() = Submit(task);
  const auto completed = Call(*stub_, &Stub::CompleteTask, complete);
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->state(), v1::TASK_STATE_COMPLETED);
  EXPECT_TRUE(completed->has_end_time());

  v1::FailTaskRequest fail;
  *fail.mutable_lease() = acquired->tasks(1).lease();
  fail.set_handed_back(true);
  EXPECT_EQ(Call(*stub_, &Stub::FailTask, fail)->state(), v1::TASK_STATE_AVAILABLE);

  v1::ListTasksRequest list;
  list.set_state(v1::TASK_STATE_COMPLETED);
  const auto listed = Call(*stub_, &Stub::ListTasks, list);
  ASSERT_EQ(listed->tasks_size(), 1);
  EXPECT_EQ(listed->tasks(0).payload(), "");
  v1::GetTaskRequest get;
  get.set_name(task.name());
  EXPECT_EQ(Call(*stub_, &Stub::GetTask, get)->payload(), "work");
}

TEST_F(TaskServiceTest, WaitTasksAnswersWhenATaskEndsAndWhenTheRoundDoes) {
  ASSERT_TRUE(Call(*stub_, &Stub::CreateTasks, TasksFor("g", "rounds/r", 3)).ok());
  EXPECT_EQ(Wait(0, 0)->available(), 3u) << "without a timeout it answers at once";
  v1::CancelTasksRequest cancel;
  cancel.add_names("taskgroups/g/tasks/2");
  std::thread canceller(
      [&] { EXPECT_EQ(Call(*stub_, &Stub::CancelTasks, cancel)->cancelled(), 1u); });
  const auto changed = Wait(1, 30);
  canceller.join();
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->cancelled(), 1u);
  EXPECT_EQ(changed->revision(), 2u);
  std::thread sealer([&] { EXPECT_TRUE(client_.Seal("rounds/r").ok()); });
  const auto ended = Wait(0, 30);
  sealer.join();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->cancelled(), 3u);
  v1::WaitRoundRequest published;
  published.set_name("rounds/r");
  EXPECT_TRUE(client_.Wait(published).ok());
  EXPECT_TRUE(client_.Delete("rounds/r").ok());
  absl::Status gone;
  while (gone.ok()) gone = Wait(0, 0).status();  // it is forgotten within a moment
  EXPECT_EQ(ErrorReason(gone), "TASK_GROUP_NOT_FOUND");
}

TEST_F(TaskServiceTest, AStoppingServerHandsOutNoTasksAndTakesWhatIsDone) {
  ASSERT_TRUE(Call(*stub_, &Stub::CreateTasks, TasksFor("g", "rounds/r", 2)).ok());
  const auto acquired = Call(*stub_, &Stub::AcquireTasks, Acquisition("w"));
  v1::CompleteTaskRequest complete;
  *complete.mutable_lease() = acquired->tasks(0).lease();
  *complete.mutable_receipt() = Submit(acquired->tasks(0));
  std::thread stopper([&] { server_.grpc().Drain(); });
  const absl::Status waiting = Wait(0, 30).status();
  stopper.join();
  EXPECT_EQ(ErrorReason(waiting), "SERVER_DRAINING");
  const absl::Status refused = Call(*stub_, &Stub::AcquireTasks, Acquisition("w")).status();
  EXPECT_EQ(ErrorReason(refused), "SERVER_DRAINING");
  EXPECT_GT(RetryAfterMs(refused), 0u);
  EXPECT_TRUE(Call(*stub_, &Stub::CompleteTask, complete).ok());
}

// --- Roles ---

class TaskRolesTest : public ::testing::Test {
 protected:
  TaskRolesTest() {
    std::string rows;
    for (const Role role : kAllRoles) AddRow(rows, std::string(RoleName(role)) + "-1", role);
    AddRow(rows, "worker-2", Role::kWorker);
    const std::string path = folder_.path() + "/credentials";
    std::ofstream(path) << "{\"credentials\": [" << rows << "]}";
    authenticator_ = Authenticator::Open({.credentials_file = path}).value();
    ServerSecurity security{.authenticator = authenticator_.get()};
    server_ = std::make_unique<TestServer>(Limits(), "127.0.0.1:0", std::move(security));
    channel_ = NewChannel(server_->address());
    stub_ = v1::TaskService::NewStub(channel_);
    rounds_ = v1::AggregationService::NewStub(channel_);
  }
  // The token is the principal.
  static void AddRow(std::string& rows, const std::string& principal, Role role) {
    absl::StrAppend(&rows, rows.empty() ? "" : ",", "{\"token_sha256\": \"",
                    ToHex(DigestOf(principal)), "\", \"tenant\": \"acme\", \"principal\": \"",
                    principal, "\", \"roles\": [\"", std::string(RoleName(role)), "\"]}");
  }
  absl::Status Submit(const std::string& token, const std::string& round,
                      const std::string& contributor) {
    const auto context = NewContext();
    context->AddMetadata("authorization", "Bearer " + token);
    v1::Receipt receipt;
    return FromGrpc(rounds_->SubmitUpdate(context.get(), UpdateOf(round, contributor), &receipt));
  }

  TemporaryFolder folder_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<TestServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
  std::unique_ptr<v1::AggregationService::Stub> rounds_;
};

TEST_F(TaskRolesTest, EachRoleMayDoWhatTheTableSaysAndNothingElse) {
  const auto* service = v1::Task::descriptor()->file()->service(0);
  ASSERT_EQ(service->method_count(), 9);
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string& name = service->method(i)->name();
    const std::string path = "/" + service->full_name() + "/" + name;
    RoleSet allowed;
    for (const RpcRule& rule : RpcRules()) {
      if (rule.rpc == name) allowed = rule.roles;
    }
    EXPECT_FALSE(allowed.empty()) << name << " has no row";
    const auto reason_as = [&](const std::string& token) {
      const auto context = NewContext();
      if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
      const grpc::internal::RpcMethod method(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
      v1::Task ignored;
      const grpc::Status status = grpc::internal::BlockingUnaryCall<google::protobuf::MessageLite,
                                                                    google::protobuf::MessageLite>(
          channel_.get(), method, context.get(), v1::GetTaskRequest(), &ignored);
      return ErrorReason(FromGrpc(status));
    };
    EXPECT_EQ(reason_as(""), "CREDENTIALS_MISSING") << name;
    for (const Role role : kAllRoles) {
      const std::string token = std::string(RoleName(role)) + "-1";
      EXPECT_EQ(reason_as(token) != "ROLE_MISSING", allowed.Has(role)) << name << " as " << token;
    }
  }
}

TEST_F(TaskRolesTest, AWorkerSubmitsForTheTaskThatItHoldsAndSeesItsOwnOnly) {
  v1::CreateRoundRequest create;
  *create.mutable_spec() = VectorRound("t", 10);
  create.set_round_id("r");
  const auto context = NewContext();
  context->AddMetadata("authorization", "Bearer owner-1");
  v1::Round round;
  ASSERT_TRUE(rounds_->CreateRound(context.get(), create, &round).ok());
  ASSERT_TRUE(Call(*stub_, &Stub::CreateTasks, TasksFor("g", "rounds/r", 3), "owner-1").ok());

  EXPECT_EQ(ErrorReason(Submit("worker-1", "rounds/r", "g/1")), "CONTRIBUTOR_NOT_YOURS");
  const auto other = Call(*stub_, &Stub::AcquireTasks, Acquisition("worker-2"), "worker-1");
  EXPECT_EQ(ErrorReason(other.status()), "WORKER_NOT_YOURS");
  const auto mine = Call(*stub_, &Stub::AcquireTasks, Acquisition("worker-1/app"), "worker-1");
  ASSERT_TRUE(mine.ok()) << mine.status();
  const auto theirs = Call(*stub_, &Stub::AcquireTasks, Acquisition("worker-2"), "worker-2");
  ASSERT_TRUE(theirs.ok()) << theirs.status();

  EXPECT_TRUE(Submit("worker-1", "rounds/r", mine->tasks(0).contributor()).ok());
  EXPECT_EQ(ErrorReason(Submit("worker-1", "rounds/r", theirs->tasks(0).contributor())),
            "CONTRIBUTOR_NOT_YOURS");
  EXPECT_EQ(ErrorReason(Submit("worker-1", "rounds/s", mine->tasks(0).contributor())),
            "CONTRIBUTOR_NOT_YOURS");

  v1::GetTaskRequest get;
  get.set_name(mine->tasks(0).name());
  EXPECT_TRUE(Call(*stub_, &Stub::GetTask, get, "worker-1").ok());
  EXPECT_EQ(ErrorReason(Call(*stub_, &Stub::GetTask, get, "worker-2").status()), "TASK_NOT_FOUND");
  EXPECT_TRUE(Call(*stub_, &Stub::GetTask, get, "operator-1").ok());
  EXPECT_EQ(Call(*stub_, &Stub::ListTasks, v1::ListTasksRequest(), "worker-2")->tasks_size(), 1);
  EXPECT_EQ(Call(*stub_, &Stub::ListTasks, v1::ListTasksRequest(), "operator-1")->tasks_size(), 3);
  v1::FailTaskRequest fail;
  *fail.mutable_lease() = theirs->tasks(0).lease();
  EXPECT_EQ(ErrorReason(Call(*stub_, &Stub::FailTask, fail, "worker-1").status()),
            "TASK_NOT_FOUND");
}

}  // namespace
}  // namespace sparseagg::testing
