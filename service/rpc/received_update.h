// The messages that bring updates (SubmitUpdateRequest, StreamUpdatesRequest, ReduceRequest) and
// those that list tensors (CreateRoundRequest, GetAggregateRequest), read from the bytes that the
// network brought: protobuf parses what is short, once it is known to be, payloads stay where they
// are. The bytes mean what protobuf's parser says they mean; a test compares the two.
#ifndef SPARSEAGG_SERVICE_RPC_RECEIVED_UPDATE_H_
#define SPARSEAGG_SERVICE_RPC_RECEIVED_UPDATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/encoding.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// A whole update. Its payload is views into the bytes that it was read from.
struct ReceivedUpdate {
  v1::UpdateHeader header;
  struct Tensor {
    v1::TensorHeader header;
    std::vector<std::string_view> indices;
    std::vector<std::string_view> values;
  };
  std::vector<Tensor> tensors;
};

// A chunk of an update; `data` is views into the bytes that it was read from.
struct ReceivedChunk {
  std::string update_id;
  uint64_t offset = 0;
  std::optional<uint32_t> crc32c;
  std::vector<std::string_view> data;
};

// A message without a body is std::monostate.
struct ReceivedStreamMessage {
  std::variant<std::monostate, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk> body;
  bool takes_more = false;
};
using ReceivedReduceMessage =
    std::variant<std::monostate, v1::ReduceStart, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk>;

// As many as round-tensors-max can be; they take about as much memory as a message may.
inline constexpr uint64_t kMessageTensorsMax = 65'536;

// INVALID_ARGUMENT (MALFORMED_MESSAGE) for bytes that are not the message, or have more tensors.
absl::StatusOr<ReceivedUpdate> ReadSubmitUpdate(ByteChain bytes);
absl::StatusOr<ReceivedStreamMessage> ReadStreamUpdates(ByteChain bytes);
absl::StatusOr<ReceivedReduceMessage> ReadReduce(ByteChain bytes);
absl::StatusOr<v1::CreateRoundRequest> ReadCreateRound(ByteChain bytes);
absl::StatusOr<v1::GetAggregateRequest> ReadGetAggregate(ByteChain bytes);

// Cuts an update id that is longer than any valid one, by far, so that answers which wait, and what
// is remembered of refused updates, stay small: a message's id may have megabytes.
void ShortenUpdateId(ReceivedStreamMessage& message);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RECEIVED_UPDATE_H_
