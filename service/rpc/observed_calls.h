// Reports every call to a CallObserver, and answers each with its request id (trailer
// "x-request-id"). Sits between gRPC and the services as an interceptor; the handlers do not know.
#ifndef SPARSEAGG_SERVICE_RPC_OBSERVED_CALLS_H_
#define SPARSEAGG_SERVICE_RPC_OBSERVED_CALLS_H_

#include <grpcpp/server_builder.h>

#include <memory>

#include "service/rpc/call_observer.h"

namespace sparseagg {

void ObserveCalls(std::shared_ptr<CallObserver> observer, grpc::ServerBuilder& builder);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_OBSERVED_CALLS_H_
