// Connects the rounds of a root with its leaves, the configuration and the log.
#ifndef SPARSEAGG_SERVICE_TREE_START_TREE_H_
#define SPARSEAGG_SERVICE_TREE_START_TREE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/config/config.h"
#include "service/engine/engine.h"
#include "service/store/store.h"
#include "service/store/task_row_store.h"
#include "service/telemetry/log.h"
#include "service/tree/tree_engine.h"

namespace sparseagg {

// Returns the leaves of the setting `name`, leaves or peers, whose id is by default the address.
// INVALID_ARGUMENT (INVALID_CONFIG) for ids that are invalid or equal.
absl::StatusOr<std::vector<Leaf>> LeavesOf(const std::string& setting, std::string_view name);

// Wraps `engine`, which has recovered its rounds. `rows`: null without a data directory, which is
// INVALID_ARGUMENT (INVALID_CONFIG) with leaves. The arguments must outlive the result.
absl::StatusOr<std::unique_ptr<TreeEngine>> StartTree(const ServerConfig& config, Engine& engine,
                                                      const UpdateStore& store, TaskRowStore* rows,
                                                      const Log& log);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_START_TREE_H_
