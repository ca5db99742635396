// A plain client of the protocol for tests: the generated stub, and calls that wait for their
// answer. Made of the generated code only, so that it tests the wire and not our client library.
#ifndef SPARSEAGG_TESTS_SERVICE_RPC_TEST_CLIENT_H_
#define SPARSEAGG_TESTS_SERVICE_RPC_TEST_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::testing {

// A channel with a connection of its own.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address);

// The error of a call, with reason and retry hint.
absl::Status FromGrpc(const grpc::Status& status);

// A call that takes this long fails the test; calls take far less.
inline constexpr int kCallSecondsMax = 120;

struct Answer {
  v1::AggregateHeader header;
  std::string bytes;
  std::vector<size_t> chunk_sizes;

  // Payload arrays of the tensor at `position` of the header.
  std::string indices(int position = 0) const;
  std::string values(int position = 0) const;
};

// Thread-safe.
class TestClient {
 public:
  explicit TestClient(std::shared_ptr<grpc::Channel> channel);

  v1::AggregationService::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  absl::StatusOr<v1::Round> Create(const v1::RoundSpec& spec, const std::string& round_id = "",
                                   const std::string& request_id = "");
  absl::StatusOr<v1::Round> Get(const std::string& name);
  absl::StatusOr<v1::Receipt> Submit(const v1::SubmitUpdateRequest& update);
  absl::StatusOr<v1::Round> Seal(const std::string& name);
  absl::StatusOr<v1::Round> Abort(const std::string& name);
  absl::Status Delete(const std::string& name);
  absl::StatusOr<v1::Round> Wait(const v1::WaitRoundRequest& request);
  // Seals and waits for the final state.
  absl::StatusOr<v1::Round> Publish(const std::string& name);
  absl::StatusOr<Answer> Aggregate(const v1::GetAggregateRequest& request);
  absl::StatusOr<Answer> Aggregate(const std::string& name);
  absl::StatusOr<v1::ServerInfo> Info();
  // Sends all messages, then reads the answer.
  absl::StatusOr<Answer> Reduce(const std::vector<v1::ReduceRequest>& messages);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AggregationService::Stub> stub_;
};

// A context whose deadline is kCallSecondsMax away, and whose call waits for the connection.
std::unique_ptr<grpc::ClientContext> NewContext();

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_RPC_TEST_CLIENT_H_
