#include "service/tree/owners/async_read.h"

#include <utility>

namespace sparseagg {
namespace {

constexpr uint64_t kReadMs = 60'000;

struct Reading {
  client::Caller caller;
  std::shared_ptr<v1::AggregationService::Stub> stub;
  std::shared_ptr<CallsInProgress> calls;
  PartReader::Done done;
  grpc::ClientContext context;
  v1::ReadResultRequest request;
  v1::ReadResultResponse response;

  void End(const grpc::Status& status) {
    if (calls->Leave(context) && !status.ok()) return done(ServerStops());
    const absl::Status read = client::ToStatus(status, caller.route);
    if (!read.ok()) return done(read);
    done(std::move(response));
  }
};

}  // namespace

void ReadResultAsync(std::shared_ptr<v1::AggregationService::Stub> stub,
                     const client::Caller& caller, std::shared_ptr<CallsInProgress> calls,
                     const std::string& name, const v1::ReadResultRequest& request,
                     PartReader::Done done) {
  const auto reading = std::make_shared<Reading>();
  reading->caller = caller;
  reading->stub = std::move(stub);
  reading->calls = std::move(calls);
  reading->done = std::move(done);
  reading->request = request;
  reading->request.mutable_result()->set_name(name);
  const absl::Status prepared = client::Prepare(reading->context, caller, kReadMs);
  if (!prepared.ok()) return reading->done(prepared);
  if (!reading->calls->Enter(reading->context)) return reading->done(ServerStops());
  reading->stub->async()->ReadResult(
      &reading->context, &reading->request, &reading->response,
      [reading](const grpc::Status& status) { reading->End(status); });
}

}  // namespace sparseagg
