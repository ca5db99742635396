// Assembles a result from the messages of GetAggregate and Reduce. Each tensor is decoded as soon
// as its bytes have arrived. Memory grows with the received bytes, not with the sizes that the
// header states.
#ifndef SPARSEAGG_CLIENT_RESULT_READER_H_
#define SPARSEAGG_CLIENT_RESULT_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "sparse/encoding.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::client {

// Thread-compatible. Errors: INTERNAL (PROTOCOL_ERROR) for inconsistent messages,
// RESOURCE_EXHAUSTED (RESULT_TOO_LARGE) beyond `bytes_max`, and those of decoding.
class ResultReader {
 public:
  ResultReader(uint64_t bytes_max, Progress progress)
      : bytes_max_(bytes_max), progress_(std::move(progress)) {}

  absl::Status Start(const v1::AggregateHeader& header);
  absl::Status Append(const v1::AggregateChunk& chunk);
  // After the last message.
  absl::StatusOr<Result> Finish() &&;

 private:
  absl::Status DecodeComplete();

  uint64_t bytes_max_;
  Progress progress_;
  bool started_ = false;
  std::vector<EncodedHeader> headers_;
  uint64_t total_bytes_ = 0;
  uint64_t offset_ = 0;  // in the result's byte string
  std::string indices_;  // of the current tensor: headers_[result_.tensors.size()]
  std::string values_;
  Result result_;
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_RESULT_READER_H_
