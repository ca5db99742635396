#include "service/rpc/observed_calls.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/error_details.h"
#include "service/rpc/aggregation_service.h"
#include "service/rpc/tasks/task_service.h"
#include "sparseagg/v1/aggregation.pb.h"
#include "sparseagg/v1/tasks.pb.h"

namespace sparseagg {
namespace {

using HookPoint = grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

CallMethod MethodAt(std::string_view path, CallKind kind) {
  const size_t slash = path.rfind('/');
  return {.path = path,
          .service = path.substr(1, slash - 1),
          .method = path.substr(slash + 1),
          .kind = kind};
}

CallMethod MethodOf(const grpc::experimental::ServerRpcInfo& info) {
  return MethodAt(info.method(), static_cast<CallKind>(info.type()));  // the generated code's path
}

CallKind KindOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? CallKind::kBidiStream : CallKind::kClientStream;
  }
  return method.server_streaming() ? CallKind::kServerStream : CallKind::kUnary;
}

void TellOfOwnMethods(CallObserver& observer) {
  for (const google::protobuf::FileDescriptor* file :
       {v1::GetServerInfoRequest::descriptor()->file(), v1::Task::descriptor()->file()}) {
    const google::protobuf::ServiceDescriptor& service = *file->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      const google::protobuf::MethodDescriptor& method = *service.method(i);
      const std::string path = "/" + service.full_name() + "/" + method.name();
      observer.OnMethod(MethodAt(path, KindOf(method)));
    }
  }
}

static_assert(static_cast<int>(CallKind::kUnary) ==
              static_cast<int>(grpc::experimental::ServerRpcInfo::Type::UNARY));
static_assert(static_cast<int>(CallKind::kBidiStream) ==
              static_cast<int>(grpc::experimental::ServerRpcInfo::Type::BIDI_STREAMING));

// Observes one call, from its headers until gRPC destroys it. The hooks for reading and for writing
// may run at the same time.
class ObservedCall : public grpc::experimental::Interceptor {
 public:
  ObservedCall(std::shared_ptr<CallObserver> observer, grpc::experimental::ServerRpcInfo& info)
      : observer_(std::move(observer)),
        context_(*info.server_context()),
        method_(MethodOf(info)),
        own_(method_.service == kAggregationServiceName || method_.service == kTaskServiceName),
        start_(std::chrono::steady_clock::now()) {
    observer_->OnCallStarted(method_);
  }

  // The status of a call whose connection broke, for which no handler's status is sent.
  ~ObservedCall() override { End(absl::StatusCode::kCancelled, ""); }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(HookPoint::POST_RECV_INITIAL_METADATA)) {
      ReadIds(*methods);
    }
    if (methods->QueryInterceptionHookPoint(HookPoint::POST_RECV_MESSAGE)) Received(*methods);
    if (methods->QueryInterceptionHookPoint(HookPoint::PRE_SEND_MESSAGE)) Sent(*methods);
    if (methods->QueryInterceptionHookPoint(HookPoint::PRE_SEND_STATUS)) Finished(*methods);
    methods->Proceed();
  }

 private:
  void ReadIds(InterceptorBatchMethods& methods) {
    const auto* metadata = methods.GetRecvInitialMetadata();
    if (metadata == nullptr) return;
    const auto text_of = [metadata](const char* key) {
      const auto found = metadata->find(key);
      return found == metadata->end()
                 ? std::string_view()
                 : std::string_view(found->second.data(), found->second.size());
    };
    const std::string_view wanted = text_of(kRequestIdHeader);
    ids_.request_id = IsRequestId(wanted) ? std::string(wanted) : NewRequestId();
    ParseTraceparent(text_of(kTraceparentHeader), ids_);
  }

  void Received(InterceptorBatchMethods& methods) {
    // The type of a message is known for the server's own services only.
    const void* message = own_ ? methods.GetRecvMessage() : nullptr;
    if (message == nullptr) return;
    const size_t bytes = static_cast<const grpc::ByteBuffer*>(message)->Length();
    bytes_in_ += bytes;
    observer_->OnMessage(method_, bytes, 0);
  }

  void Sent(InterceptorBatchMethods& methods) {
    grpc::ByteBuffer* message = own_ ? methods.GetSerializedSendMessage() : nullptr;
    if (message == nullptr) return;
    const size_t bytes = message->Length();
    bytes_out_ += bytes;
    observer_->OnMessage(method_, 0, bytes);
  }

  void Finished(InterceptorBatchMethods& methods) {
    if (auto* trailers = methods.GetSendTrailingMetadata(); trailers != nullptr) {
      trailers->emplace(kRequestIdHeader, ids_.request_id);
    }
    // The handler of a stream may not have noticed, and its status will not be sent.
    if (context_.IsCancelled()) return End(absl::StatusCode::kCancelled, "");
    const grpc::Status status = methods.GetSendStatus();
    std::string reason;
    if (!status.ok()) {
      reason = ErrorReason(FromRpcError(static_cast<int>(status.error_code()),
                                        status.error_message(), status.error_details()));
    }
    End(static_cast<absl::StatusCode>(status.error_code()), std::move(reason));
  }

  void End(absl::StatusCode code, std::string reason) {
    if (ended_.exchange(true)) return;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
    observer_->OnCallEnded(method_, {.code = code,
                                     .reason = std::move(reason),
                                     .seconds = taken.count(),
                                     .bytes_in = bytes_in_,
                                     .bytes_out = bytes_out_,
                                     .ids = ids_});
  }

  const std::shared_ptr<CallObserver> observer_;
  grpc::ServerContextBase& context_;
  const CallMethod method_;
  const bool own_;
  const std::chrono::steady_clock::time_point start_;
  RequestIds ids_;  // set before any other hook runs
  std::atomic<uint64_t> bytes_in_ = 0;
  std::atomic<uint64_t> bytes_out_ = 0;
  std::atomic<bool> ended_ = false;
};

class ObservedCalls : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ObservedCalls(std::shared_ptr<CallObserver> observer) : observer_(std::move(observer)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new ObservedCall(observer_, *info);
  }

 private:
  const std::shared_ptr<CallObserver> observer_;
};

}  // namespace

void ObserveCalls(std::shared_ptr<CallObserver> observer, grpc::ServerBuilder& builder) {
  TellOfOwnMethods(*observer);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<ObservedCalls>(std::move(observer)));
  builder.experimental().SetInterceptorCreators(std::move(creators));
}

}  // namespace sparseagg
