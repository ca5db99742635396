#include "service/rpc/tasks/wait_tasks.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/rpc/subscribed_call.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"
#include "service/rpc/wire/task_proto.h"
#include "service/tasks/task_names.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeoutDefault{30'000};
constexpr milliseconds kTimeoutMax{300'000};

// A group of tasks, as the subject of a SubscribedCall.
class TaskGroupSubject {
 public:
  using State = TaskGroupSnapshot;

  TaskGroupSubject(Tasks& tasks, std::string tenant, std::string group)
      : tasks_(tasks), tenant_(std::move(tenant)), group_(std::move(group)) {}

  absl::StatusOr<State> Get() const { return tasks_.GetGroup(tenant_, group_); }
  absl::StatusOr<std::shared_ptr<void>> Watch(
      std::function<void(const std::optional<State>&)> on_change) const {
    return tasks_.Watch(tenant_, group_, std::move(on_change));
  }
  absl::Status Gone() const { return TaskGroupNotFound(group_); }

 private:
  Tasks& tasks_;
  const std::string tenant_;
  const std::string group_;
};

class WaitTasksCall : public SubscribedCall<grpc::ServerUnaryReactor, TaskGroupSubject> {
 public:
  WaitTasksCall(AuthorisedCall call, Tasks& tasks, const v1::WaitTasksRequest& request,
                grpc::ByteBuffer* response, CallCounter& calls)
      : SubscribedCall(TaskGroupSubject(tasks, call.caller.tenant, request.group()),
                       std::move(call.place), calls),
        after_revision_(request.after_revision()),
        response_(response) {}

  void Start(DrainList& drain_list, const v1::WaitTasksRequest& request) {
    const absl::StatusOr<milliseconds> timeout =
        ToMilliseconds(request.has_timeout() ? &request.timeout() : nullptr, "timeout",
                       kTimeoutDefault, kTimeoutMax);
    Begin(timeout.status(), drain_list);
    const std::lock_guard lock(mutex());
    if (timeout.ok()) ArmAlarm(*timeout);
  }

 private:
  void OnState(const TaskGroupSnapshot& group) override {
    const bool is_newer = after_revision_ > 0 && group.revision > after_revision_;
    if (group.finished() || is_newer) Answer(group);
  }

  void OnAlarm() override {
    const absl::StatusOr<TaskGroupSnapshot> latest = GetState();
    if (!latest.ok()) return End(latest.status());
    Answer(*latest);
  }

  void OnEnd(const absl::Status& status) override { Finish(ToGrpcStatus(status)); }

  void Answer(const TaskGroupSnapshot& group) {
    *response_ = ToBytes(ToProto(group));
    End(absl::OkStatus());
  }

  const uint64_t after_revision_;
  grpc::ByteBuffer* const response_;
};

}  // namespace

grpc::ServerUnaryReactor* StartWaitTasks(AuthorisedCall call, Tasks& tasks, DrainList& drain_list,
                                         CallCounter& calls, const v1::WaitTasksRequest& request,
                                         grpc::ByteBuffer* response) {
  const auto wait =
      std::make_shared<WaitTasksCall>(std::move(call), tasks, request, response, calls);
  wait->Start(drain_list, request);
  return wait.get();
}

}  // namespace sparseagg
