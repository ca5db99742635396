// Chooses the back end and describes the server to its clients.
#ifndef SPARSEAGG_SERVICE_SERVER_INFO_H_
#define SPARSEAGG_SERVICE_SERVER_INFO_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/config/config.h"
#include "service/store/store.h"
#include "sparse/backend.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

struct BackendCandidate {
  std::string name;
  absl::Status status;  // why it is not available
  BackendInfo info;     // when it is
};

struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::vector<BackendCandidate> candidates;  // all of the build
};

// Tries every back end of `factories`, in order, and keeps the one that `name` names ("auto": the
// first that is available). INVALID_ARGUMENT (UNKNOWN_BACKEND) for a name that the build does not
// have, UNAVAILABLE (BACKEND_UNAVAILABLE), with the back end's own words, when it cannot be used
// here. Where the back end's processor may be lost, the next one that is available takes over then;
// `on_loss` is called once when that happens.
absl::StatusOr<BackendChoice> ChooseBackend(
    std::span<const BackendFactory> factories, const std::string& name,
    const BackendOptions& options, std::function<void(const absl::Status& fault)> on_loss = {});

// What GetServerInfo answers.
v1::ServerInfo MakeServerInfo(const BackendChoice& choice, const ServerConfig& config,
                              const UpdateStore& store, Durability default_durability);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVER_INFO_H_
