#include "tests/service/rpc/test_client.h"

#include <chrono>
#include <utility>

#include "base/status.h"
#include "proto/error_details.h"

namespace sparseagg::testing {
namespace {

template <typename Request, typename Response>
absl::StatusOr<Response> Call(v1::AggregationService::Stub& stub,
                              grpc::Status (v1::AggregationService::Stub::*method)(
                                  grpc::ClientContext*, const Request&, Response*),
                              const Request& request) {
  Response response;
  const auto context = NewContext();
  const grpc::Status status = (stub.*method)(context.get(), request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

template <typename Response>
void AddToAnswer(const Response& response, Answer& answer) {
  if (response.has_header()) {
    answer.header = response.header();
  } else {
    if (response.chunk().offset() != answer.bytes.size()) answer.bytes = "chunks out of order";
    answer.bytes += response.chunk().data();
    answer.chunk_sizes.push_back(response.chunk().data().size());
  }
}

uint64_t OffsetOf(const Answer& answer, int position) {
  uint64_t offset = 0;
  for (int i = 0; i < position; ++i) {
    offset += answer.header.tensors(i).indices_bytes() + answer.header.tensors(i).values_bytes();
  }
  return offset;
}

}  // namespace

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return FromRpcError(status.error_code(), status.error_message(), status.error_details());
}

std::unique_ptr<grpc::ClientContext> NewContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kCallSecondsMax));
  // gRPC 1.51 reads errno of connect() after calls that may change it, so that now and then a first
  // attempt to connect fails with "No such file or directory". The call waits for the second.
  context->set_wait_for_ready(true);
  return context;
}

std::string Answer::indices(int position) const {
  return bytes.substr(OffsetOf(*this, position), header.tensors(position).indices_bytes());
}

std::string Answer::values(int position) const {
  return bytes.substr(OffsetOf(*this, position) + header.tensors(position).indices_bytes(),
                      header.tensors(position).values_bytes());
}

TestClient::TestClient(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), stub_(v1::AggregationService::NewStub(channel_)) {}

absl::StatusOr<v1::Round> TestClient::Create(const v1::RoundSpec& spec, const std::string& round_id,
                                             const std::string& request_id) {
  v1::CreateRoundRequest request;
  request.set_round_id(round_id);
  request.set_request_id(request_id);
  *request.mutable_spec() = spec;
  return Call(*stub_, &v1::AggregationService::Stub::CreateRound, request);
}

absl::StatusOr<v1::Round> TestClient::Get(const std::string& name) {
  v1::GetRoundRequest request;
  request.set_name(name);
  return Call(*stub_, &v1::AggregationService::Stub::GetRound, request);
}

absl::StatusOr<v1::Receipt> TestClient::Submit(const v1::SubmitUpdateRequest& update) {
  return Call(*stub_, &v1::AggregationService::Stub::SubmitUpdate, update);
}

absl::StatusOr<v1::Round> TestClient::Seal(const std::string& name) {
  v1::SealRoundRequest request;
  request.set_name(name);
  return Call(*stub_, &v1::AggregationService::Stub::SealRound, request);
}

absl::StatusOr<v1::Round> TestClient::Abort(const std::string& name) {
  v1::AbortRoundRequest request;
  request.set_name(name);
  return Call(*stub_, &v1::AggregationService::Stub::AbortRound, request);
}

absl::Status TestClient::Delete(const std::string& name) {
  v1::DeleteRoundRequest request;
  request.set_name(name);
  return Call(*stub_, &v1::AggregationService::Stub::DeleteRound, request).status();
}

absl::StatusOr<v1::Round> TestClient::Wait(const v1::WaitRoundRequest& request) {
  return Call(*stub_, &v1::AggregationService::Stub::WaitRound, request);
}

absl::StatusOr<v1::Round> TestClient::Publish(const std::string& name) {
  SPARSEAGG_RETURN_IF_ERROR(Seal(name).status());
  v1::WaitRoundRequest request;
  request.set_name(name);
  request.mutable_timeout()->set_seconds(kCallSecondsMax);
  return Wait(request);
}

absl::StatusOr<Answer> TestClient::Aggregate(const v1::GetAggregateRequest& request) {
  const auto context = NewContext();
  const auto reader = stub_->GetAggregate(context.get(), request);
  Answer answer;
  v1::GetAggregateResponse response;
  while (reader->Read(&response)) AddToAnswer(response, answer);
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpc(status);
  return answer;
}

absl::StatusOr<Answer> TestClient::Aggregate(const std::string& name) {
  v1::GetAggregateRequest request;
  request.set_name(name);
  return Aggregate(request);
}

absl::StatusOr<v1::ServerInfo> TestClient::Info() {
  return Call(*stub_, &v1::AggregationService::Stub::GetServerInfo, v1::GetServerInfoRequest());
}

absl::StatusOr<Answer> TestClient::Reduce(const std::vector<v1::ReduceRequest>& messages) {
  const auto context = NewContext();
  const auto stream = stub_->Reduce(context.get());
  for (const v1::ReduceRequest& message : messages) {
    if (!stream->Write(message)) break;  // the call has ended; Finish() says why
  }
  stream->WritesDone();
  Answer answer;
  v1::ReduceResponse response;
  while (stream->Read(&response)) AddToAnswer(response, answer);
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return FromGrpc(status);
  return answer;
}

}  // namespace sparseagg::testing
