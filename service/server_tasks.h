// Connects the task service with the rounds of the engine, the log and the audit log.
#ifndef SPARSEAGG_SERVICE_SERVER_TASKS_H_
#define SPARSEAGG_SERVICE_SERVER_TASKS_H_

#include <memory>

#include "absl/status/status.h"
#include "service/config/config.h"
#include "service/engine/engine.h"
#include "service/server_security.h"
#include "service/store/store.h"
#include "service/store/task_row_store.h"
#include "service/tasks/tasks.h"
#include "service/telemetry/log.h"

namespace sparseagg {

// Creates the task service. It is an observer of the engine, which is created after it. `rows`:
// null without a data directory. `protection` and the stores must outlive it.
std::shared_ptr<Tasks> MakeTasks(const ServerConfig& config, Protection& protection, const Log& log,
                                 const UpdateStore& store, TaskRowStore* rows);

// Takes up the tasks that the store has kept. Call it after Engine::Recover(). `engine` must
// outlive the calls of `tasks`. The tasks of a round that the next start may restore stay, although
// the engine shows the round as ABORTED.
absl::Status RecoverTasks(Tasks& tasks, Engine& engine, const Log& log);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVER_TASKS_H_
