#include "service/rpc/wire/status_table.h"

#include <string>

#include "base/status.h"
#include "proto/error_details.h"

namespace sparseagg {
namespace {

// A stopping server is replaced or restarted within seconds.
constexpr uint64_t kDrainingRetryMs = 1000;

}  // namespace

// absl and gRPC give their codes the same numbers by design; the assertions check three of them.
static_assert(static_cast<int>(absl::StatusCode::kInvalidArgument) == grpc::INVALID_ARGUMENT);
static_assert(static_cast<int>(absl::StatusCode::kResourceExhausted) == grpc::RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) == grpc::UNAUTHENTICATED);

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      ClipErrorMessage({status.message().data(), status.message().size()}),
                      ErrorDetails(status));
}

absl::Status DrainingError() {
  return WithRetryAfter(MakeError(absl::StatusCode::kUnavailable, "SERVER_DRAINING",
                                  "the server is stopping; try again when it is back"),
                        kDrainingRetryMs);
}

}  // namespace sparseagg
