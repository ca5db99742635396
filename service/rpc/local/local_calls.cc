#include "service/rpc/local/local_calls.h"

#include <grpcpp/generic/generic_stub.h>

#include "service/rpc/grpc_server.h"
#include "service/rpc/local/forwarded_caller.h"
#include "service/rpc/wire/request_ids.h"

namespace sparseagg {
namespace {

// Takes `bytes` over without a copy.
grpc::ByteBuffer ToBuffer(std::string bytes) {
  auto* owned = new std::string(std::move(bytes));
  const grpc::Slice slice(
      owned->data(), owned->size(), [](void* text) { delete static_cast<std::string*>(text); },
      owned);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// A call in progress.
struct Pending {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

LocalAnswer AnswerOf(const grpc::Status& status, const Pending& call) {
  LocalAnswer answer{.code = static_cast<absl::StatusCode>(status.error_code()),
                     .message = status.error_message(),
                     .details = status.error_details()};
  if (status.ok()) answer.response = ToString(call.response);
  const auto& trailers = call.context.GetServerTrailingMetadata();
  if (const auto id = trailers.find(kRequestIdHeader); id != trailers.end()) {
    answer.request_id.assign(id->second.data(), id->second.size());
  }
  return answer;
}

class ChannelCalls : public LocalCalls {
 public:
  explicit ChannelCalls(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {}

  std::function<void()> Start(LocalCall call, Done done) override {
    const auto pending = std::make_shared<Pending>();
    AddForwardedCaller({call.peer, std::move(call.certificate_names)}, pending->context);
    for (const auto& [key, value] : call.metadata) pending->context.AddMetadata(key, value);
    if (call.timeout.has_value()) {
      pending->context.set_deadline(std::chrono::system_clock::now() + *call.timeout);
    }
    pending->request = ToBuffer(std::move(call.request));
    stub_.UnaryCall(&pending->context, call.method, grpc::StubOptions(), &pending->request,
                    &pending->response,
                    [pending, done = std::move(done)](const grpc::Status& status) {
                      done(AnswerOf(status, *pending));
                    });
    return [pending] { pending->context.TryCancel(); };
  }

 private:
  grpc::GenericStub stub_;
};

}  // namespace

std::unique_ptr<LocalCalls> GrpcServer::NewLocalCalls() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // answers are bounded where they are made
  return std::make_unique<ChannelCalls>(server_->InProcessChannel(arguments));
}

}  // namespace sparseagg
