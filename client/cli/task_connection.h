// Connects commands to the task service of a server.
#ifndef SPARSEAGG_CLIENT_CLI_TASK_CONNECTION_H_
#define SPARSEAGG_CLIENT_CLI_TASK_CONNECTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/task_client.h"

namespace sparseagg::cli {

// The task service of the server that the flags name, with the options of Connect().
absl::StatusOr<std::unique_ptr<client::TaskClient>> ConnectTasks(const CommonFlags& flags);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TASK_CONNECTION_H_
