// Converts tasks between the types of service/tasks/ and protobuf messages.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_TASK_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_TASK_PROTO_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/tasks/task_types.h"
#include "sparseagg/v1/tasks.pb.h"

namespace sparseagg {

v1::TaskGroup ToProto(const TaskGroupSnapshot& group);
v1::Task ToProto(const TaskSnapshot& task);
v1::AcquireTasksResponse ToProto(const AcquiredTasks& acquired);
v1::ListTasksResponse ToProto(const TaskPage& page);
v1::TaskLease ToProto(const std::string& task, const TaskLease& lease);

// INVALID_DURATION; the rest is checked by Tasks.
absl::StatusOr<CreateTasksArgs> FromProto(const std::string& tenant,
                                          const v1::CreateTasksRequest& proto);
AcquireArgs FromProto(const v1::AcquireTasksRequest& proto);
// INVALID_PAGE_SIZE, INVALID_TASK_REQUEST for a state that this version does not know.
absl::StatusOr<ListTasksArgs> FromProto(const v1::ListTasksRequest& proto);
TaskLeaseKey FromProto(const v1::TaskLease& proto);
Receipt FromProto(const v1::Receipt& proto);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_TASK_PROTO_H_
