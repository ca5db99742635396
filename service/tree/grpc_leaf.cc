#include "service/tree/grpc_leaf.h"

#include <grpcpp/client_context.h>

#include <optional>
#include <utility>

#include "base/status.h"
#include "client/transport/address.h"
#include "client/transport/call.h"
#include "client/transport/connections.h"
#include "client/transport/credentials.h"
#include "client/transport/route.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/tree_proto.h"
#include "service/tree/owners/async_read.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg {
namespace {

using Stub = v1::AggregationService::Stub;

constexpr uint64_t kCallMs = 10'000;
constexpr uint64_t kTransferMs = 3'600'000;

class GrpcLeaf : public LeafLink {
 public:
  GrpcLeaf(client::Caller caller, const std::shared_ptr<grpc::Channel>& channel)
      : caller_(std::move(caller)), stub_(v1::AggregationService::NewStub(channel)) {}

  absl::Status Greet() override {
    v1::ServerInfo info;
    return Call(kCallMs, [&](grpc::ClientContext& context) {
      return stub_->GetServerInfo(&context, v1::GetServerInfoRequest(), &info);
    });
  }
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
      const std::string& name, const std::optional<RowRange>& rows, uint64_t likely,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
      const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) override {
    Reading reading = {.name = name, .rows = rows, .offset = likely};
    absl::Status read = ReadFrom(on_header, on_bytes, reading);
    if (!reading.header.has_value() && ErrorReason(read) == "OFFSET_MISMATCH") {
      reading.offset = 0;  // it is another partial aggregate than the caller believes
      read = ReadFrom(on_header, on_bytes, reading);
    }
    if (std::exchange(reading.goes_on, false)) read = ReadFrom(on_header, on_bytes, reading);
    if (!read.ok() || reading.header.has_value()) return read;
    return absl::DataLossError("the leaf sent no header of its partial aggregate");
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
    ReadResultAsync(stub_, caller_, calls_, name, request, std::move(done));
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
    return LeafRound{.state = static_cast<RoundState>(round.state()),
                     .contributors = round.contributors(),
                     .start = {round.leaf_start().id(), round.leaf_start().contributors()},
                     .tree = FromProto(round.spec().tree()),
                     .may_be_restored = round.may_be_restored()};
  }

  struct Reading {
    const std::string& name;
    const std::optional<RowRange>& rows;
    uint64_t offset = 0;  // of the first byte that is asked for
    std::optional<LeafPartial> header = std::nullopt;
    bool goes_on = false;  // another call has to begin at `offset`
  };

  template <class OnHeader, class OnBytes>
  absl::Status ReadFrom(const OnHeader& on_header, const OnBytes& on_bytes, Reading& reading) {
    v1::GetPartialRequest request;
    request.set_name(reading.name);
    if (reading.rows.has_value()) *request.mutable_rows() = ToProto(*reading.rows);
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
    if (!calls_->Enter(context)) return ServerStops();
    const grpc::Status status = run(context);
    if (calls_->Leave(context) && !status.ok()) return ServerStops();
    return client::ToStatus(status, caller_.route);
  }

  const client::Caller caller_;
  const std::shared_ptr<Stub> stub_;
  const std::shared_ptr<CallsInProgress> calls_ = std::make_shared<CallsInProgress>();
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
