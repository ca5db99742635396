#include "service/tree/grpc_leaf.h"

#include <grpcpp/client_context.h>

#include <mutex>
#include <optional>
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

absl::Status Cancelled() { return absl::CancelledError("the server is stopping"); }

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
  absl::Status GiveUp(const std::string& name) override {
    v1::AbortRoundRequest request;
    request.set_name(name);
    request.set_given_up(true);
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

  absl::Status ReadPartial(
      const std::string& name, uint64_t likely,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
      const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) override {
    Reading reading = {.offset = likely};
    absl::Status read = ReadFrom(name, on_header, on_bytes, reading);
    if (!reading.header.has_value() && ErrorReason(read) == "OFFSET_MISMATCH") {
      reading.offset = 0;  // it is another partial aggregate than the caller believes
      read = ReadFrom(name, on_header, on_bytes, reading);
    }
    if (std::exchange(reading.goes_on, false)) {
      read = ReadFrom(name, on_header, on_bytes, reading);
    }
    if (!read.ok() || reading.header.has_value()) return read;
    return absl::DataLossError("the leaf sent no header of its partial aggregate");
  }

  void Cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }

 private:
  template <class Request>
  absl::StatusOr<LeafRound> RoundCall(const Request& request,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, v1::Round*)) {
    v1::Round round;
    SPARSEAGG_RETURN_IF_ERROR(Call(kCallMs, [&](grpc::ClientContext& context) {
      return ((*stub_).*method)(&context, request, &round);
    }));
    return LeafRound{.state = static_cast<RoundState>(round.state()),
                     .contributors = round.contributors(),
                     .start = {round.leaf_start().id(), round.leaf_start().contributors()}};
  }

  struct Reading {
    uint64_t offset = 0;  // of the first byte that is asked for
    std::optional<LeafPartial> header = std::nullopt;
    bool goes_on = false;  // another call has to begin at `offset`
  };

  template <class OnHeader, class OnBytes>
  absl::Status ReadFrom(const std::string& name, const OnHeader& on_header, const OnBytes& on_bytes,
                        Reading& reading) {
    v1::GetPartialRequest request;
    request.set_name(name);
    request.set_offset(reading.offset);
    absl::Status taken;
    const absl::Status read = Call(kTransferMs, [&](grpc::ClientContext& context) {
      const auto stream = stub_->GetPartial(&context, request);
      v1::GetPartialResponse message;
      while (taken.ok() && !reading.goes_on && stream->Read(&message)) {
        if (message.has_header()) taken = TakeHeader(message.header(), on_header, reading);
        if (message.has_chunk()) taken = on_bytes(message.chunk().offset(), message.chunk().data());
      }
      const bool is_cut = !taken.ok() || reading.goes_on;
      if (is_cut) context.TryCancel();
      const grpc::Status end = stream->Finish();
      return is_cut ? grpc::Status::OK : end;
    });
    return taken.ok() ? read : taken;
  }

  template <class OnHeader>
  static absl::Status TakeHeader(const v1::PartialHeader& proto, const OnHeader& on_header,
                                 Reading& reading) {
    const LeafPartial header = {proto.bytes(), proto.digest()};
    if (reading.header.has_value()) {
      if (reading.header->digest == header.digest) return absl::OkStatus();
      return absl::UnavailableError("the leaf has another partial aggregate than before");
    }
    reading.header = header;
    SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t needed, on_header(header));
    reading.goes_on = needed != reading.offset;
    reading.offset = needed;
    return absl::OkStatus();
  }

  template <class Run>
  absl::Status Call(uint64_t timeout_ms, const Run& run) {
    grpc::ClientContext context;
    SPARSEAGG_RETURN_IF_ERROR(client::Prepare(context, caller_, timeout_ms));
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return Cancelled();
      contexts_.insert(&context);
    }
    const grpc::Status status = run(context);
    {
      const std::lock_guard lock(mutex_);
      contexts_.erase(&context);
      if (cancelled_ && !status.ok()) return Cancelled();
    }
    return client::ToStatus(status, caller_.route);
  }

  const client::Caller caller_;
  const std::unique_ptr<Stub> stub_;
  std::mutex mutex_;
  bool cancelled_ = false;
  std::set<grpc::ClientContext*> contexts_;
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
