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
  std::vector<BackendCandidate> candidates;  // all back ends of the build
};

// Tries every back end of `factories`, in order, and keeps the one called `config.backend` ("auto":
// the first that is available). INVALID_ARGUMENT (UNKNOWN_BACKEND) for a name that the build does
// not have; UNAVAILABLE (BACKEND_UNAVAILABLE), with the back end's message, if it cannot be used
// here; INVALID_ARGUMENT (UNKNOWN_DEVICE) for a device that the machine does not have. If the back
// end's processor may fail, the next available back end takes over then, and `on_loss` is called
// once. Of several devices each fails alone: what it held is reduced again by that back end, and
// `on_loss` is called for each.
absl::StatusOr<BackendChoice> ChooseBackend(
    std::span<const BackendFactory> factories, const ServerConfig& config,
    std::function<void(const absl::Status& fault)> on_loss = {});

// The answer of GetServerInfo.
v1::ServerInfo MakeServerInfo(const BackendChoice& choice, const ServerConfig& config,
                              const UpdateStore& store, Durability default_durability);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVER_INFO_H_
