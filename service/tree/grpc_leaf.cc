#include "service/tree/grpc_leaf.h"

#include <grpcpp/client_context.h>

#include <mutex>
#include <set>
#include <utility>

#include "base/status.h"
#include "client/transport/address.h"
#include "client/transport/call.h"
#include "client/transport/connections.h"
#include "client/transport/credentials.h"
#include "client/transport/route.h"
#include "service/rpc/wire/round_proto.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg {
namespace {

using Stub = v1::AggregationService::Stub;

constexpr uint64_t kCallMs = 10'000;
constexpr uint64_t kTransferMs = 3'600'000;
constexpr uint64_t kReadMs = 60'000;

absl::Status Cancelled() { return absl::CancelledError("the server is stopping"); }

// The calls in progress. Thread-safe.
class Calls {
 public:
  // Returns whether the call may begin.
  bool Enter(grpc::ClientContext& context) {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) contexts_.insert(&context);
    return !cancelled_;
  }
  // Returns whether Cancel() was called.
  bool Leave(grpc::ClientContext& context) {
    const std::lock_guard lock(mutex_);
    contexts_.erase(&context);
    return cancelled_;
  }
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }

 private:
  std::mutex mutex_;
  bool cancelled_ = false;
  std::set<grpc::ClientContext*> contexts_;
};

class GrpcLeaf : public LeafLink {
 public:
  GrpcLeaf(client::Caller caller, const std::shared_ptr<grpc::Channel>& channel)
      : caller_(std::move(caller)), stub_(v1::AggregationService::NewStub(channel)) {}

  absl::StatusOr<LeafRound> Create(const CreateRoundArgs& args) override {
    v1::CreateRoundRequest request;
    request.set_round_id(args.round_id);
    request.set_request_id(args.request_id);
    *request.mutable_spec() = ToProto(args.spec);
    return RoundCall(request, &Stub::CreateRound);
  }
  absl::StatusOr<LeafRound> Get(const std::string& name) override {
    v1::GetRoundRequest request;
    request.set_name(name);
    return RoundCall(request, &Stub::GetRound);
  }
  absl::StatusOr<LeafRound> Seal(const std::string& name) override {
    v1::SealRoundRequest request;
    request.set_name(name);
    return RoundCall(request, &Stub::SealRound);
  }
  absl::Status Abort(const std::string& name) override {
    v1::AbortRoundRequest request;
    request.set_name(name);
    return RoundCall(request, &Stub::AbortRound).status();
  }
  absl::Status Delete(const std::string& name) override {
    v1::DeleteRoundRequest request;
    request.set_name(name);
    google::protobuf::Empty response;
    return Call(kCallMs, [&](grpc::ClientContext& context) {
      return stub_->DeleteRound(&context, request, &response);
    });
  }

  absl::StatusOr<LeafPartial> DescribePartial(const std::string& name,
                                              const std::optional<RowRange>& rows) override {
    v1::GetPartialRequest request;
    request.set_name(name);
    if (rows.has_value()) *request.mutable_rows() = ToProto(*rows);
    LeafPartial partial;
    bool found = false;
    const absl::Status status = Call(kCallMs, [&](grpc::ClientContext& context) {
      const auto stream = stub_->GetPartial(&context, request);
      v1::GetPartialResponse message;
      found = stream->Read(&message) && message.has_header();
      if (!found) return stream->Finish();
      partial = {message.header().bytes(), message.header().digest()};
      context.TryCancel();
      stream->Finish();
      return grpc::Status::OK;
    });
    SPARSEAGG_RETURN_IF_ERROR(status);
    if (!found) return absl::DataLossError("the leaf sent no header of its partial aggregate");
    return partial;
  }

  absl::Status ReadPartial(
      const std::string& name, const std::optional<RowRange>& rows, uint64_t offset,
      const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) override {
    v1::GetPartialRequest request;
    request.set_name(name);
    if (rows.has_value()) *request.mutable_rows() = ToProto(*rows);
    request.set_offset(offset);
    absl::Status taken;
    const absl::Status read = Call(kTransferMs, [&](grpc::ClientContext& context) {
      const auto stream = stub_->GetPartial(&context, request);
      v1::GetPartialResponse message;
      while (taken.ok() && stream->Read(&message)) {
        if (message.has_chunk()) taken = on_bytes(message.chunk().offset(), message.chunk().data());
      }
      if (!taken.ok()) context.TryCancel();
      return stream->Finish();
    });
    return taken.ok() ? read : taken;
  }

  absl::StatusOr<OwnerRound> GetOwned(const std::string& name) override {
    v1::GetRoundRequest request;
    request.set_name(name);
    v1::Round round;
    SPARSEAGG_RETURN_IF_ERROR(Call(kCallMs, [&](grpc::ClientContext& context) {
      return stub_->GetRound(&context, request, &round);
    }));
    OwnerRound owned = {.state = static_cast<RoundState>(round.state()),
                        .failure = round.failure(),
                        .nnz = {},
                        .manifest = {}};
    for (const v1::TensorStatus& tensor : round.tensors()) owned.nnz.push_back(tensor.nnz_result());
    owned.manifest.contributors = round.manifest().contributors();
    owned.manifest.infinite_values = round.manifest().infinite_values();
    owned.manifest.updates_digest = round.manifest().updates_digest();
    owned.manifest.result_digest = round.manifest().result_digest();
    return owned;
  }
  absl::StatusOr<Verification> Verify(const std::string& name) override {
    v1::VerifyRoundRequest request;
    request.set_name(name);
    v1::VerifyRoundResponse verified;
    SPARSEAGG_RETURN_IF_ERROR(Call(kTransferMs, [&](grpc::ClientContext& context) {
      return stub_->VerifyRound(&context, request, &verified);
    }));
    return Verification{verified.contributors(), verified.bytes_read(), verified.updates_digest(),
                        verified.result_digest(), verified.backend()};
  }
  void ReadResult(const std::string& name, const v1::ReadResultRequest& request,
                  PartReader::Done done) override {
    struct Reading {
      client::Caller caller;
      std::shared_ptr<Stub> stub;  // in use until the call is over
      std::shared_ptr<Calls> calls;
      PartReader::Done done;
      grpc::ClientContext context;
      v1::ReadResultRequest request;
      v1::ReadResultResponse response;
    };
    const auto reading = std::make_shared<Reading>();
    reading->caller = caller_;
    reading->stub = stub_;
    reading->calls = calls_;
    reading->done = std::move(done);
    reading->request = request;
    reading->request.mutable_result()->set_name(name);
    const absl::Status prepared = client::Prepare(reading->context, caller_, kReadMs);
    if (!prepared.ok()) return reading->done(prepared);
    if (!calls_->Enter(reading->context)) return reading->done(Cancelled());
    stub_->async()->ReadResult(&reading->context, &reading->request, &reading->response,
                               [reading](const grpc::Status& status) {
                                 if (reading->calls->Leave(reading->context) && !status.ok()) {
                                   return reading->done(Cancelled());
                                 }
                                 const absl::Status read =
                                     client::ToStatus(status, reading->caller.route);
                                 if (!read.ok()) return reading->done(read);
                                 reading->done(std::move(reading->response));
                               });
  }

  void Cancel() override { calls_->Cancel(); }

 private:
  template <class Request>
  absl::StatusOr<LeafRound> RoundCall(const Request& request,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, v1::Round*)) {
    v1::Round round;
    SPARSEAGG_RETURN_IF_ERROR(Call(kCallMs, [&](grpc::ClientContext& context) {
      return ((*stub_).*method)(&context, request, &round);
    }));
    return LeafRound{static_cast<RoundState>(round.state()), round.contributors()};
  }

  template <class Run>
  absl::Status Call(uint64_t timeout_ms, const Run& run) {
    grpc::ClientContext context;
    SPARSEAGG_RETURN_IF_ERROR(client::Prepare(context, caller_, timeout_ms));
    if (!calls_->Enter(context)) return Cancelled();
    const grpc::Status status = run(context);
    if (calls_->Leave(context) && !status.ok()) return Cancelled();
    return client::ToStatus(status, caller_.route);
  }

  const client::Caller caller_;
  const std::shared_ptr<Stub> stub_;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeafLink>> MakeGrpcLeaf(const std::string& address,
                                                       const client::ClientOptions& options) {
  SPARSEAGG_ASSIGN_OR_RETURN(const client::Address parsed, client::ParseAddress(address));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto credentials,
                             client::MakeChannelCredentials(parsed, options));
  const bool by_tls = options.tls.has_value() || parsed.tls.value_or(false);
  client::Caller caller = {.route = client::RouteTo(parsed, by_tls), .options = options};
  const auto channel = client::MakeChannel(caller.route, credentials);
  return std::make_unique<GrpcLeaf>(std::move(caller), channel);
}

}  // namespace sparseagg
