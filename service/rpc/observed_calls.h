// A gRPC interceptor that reports every call to a CallObserver and adds the request id to each
// answer (trailer "x-request-id"). Handlers need not do anything for it.
#ifndef SPARSEAGG_SERVICE_RPC_OBSERVED_CALLS_H_
#define SPARSEAGG_SERVICE_RPC_OBSERVED_CALLS_H_

#include <grpcpp/server_builder.h>

#include <memory>

#include "service/rpc/call_observer.h"

namespace sparseagg {

void ObserveCalls(std::shared_ptr<CallObserver> observer, grpc::ServerBuilder& builder);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_OBSERVED_CALLS_H_
