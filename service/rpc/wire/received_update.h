// Messages of clients, read from the bytes that the network brought. Of those that bring updates
// (SubmitUpdateRequest, StreamUpdatesRequest, ReduceRequest) payloads stay where they are; protobuf
// parses the rest, and all others, less what it does not know. The bytes mean what protobuf's
// parser says they mean; a test compares the two.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_RECEIVED_UPDATE_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_RECEIVED_UPDATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
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

// What it takes beside the bytes that it was read from: tensors of two bytes make 90 times as much.
uint64_t BytesHeld(const ReceivedUpdate& update);

// A chunk of an update; `data` is views into the bytes that it was read from.
struct ReceivedChunk {
  std::string update_id;
  uint64_t offset = 0;
  std::optional<uint32_t> crc32c;
  std::vector<std::string_view> data;
};

// Whole updates that came in one message.
using ReceivedBatch = std::vector<ReceivedUpdate>;

// A message without a body is std::monostate.
struct ReceivedStreamMessage {
  std::variant<std::monostate, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk, ReceivedBatch> body;
  bool takes_more = false;
};
using ReceivedReduceMessage =
    std::variant<std::monostate, v1::ReduceStart, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk>;

// INVALID_ARGUMENT (MALFORMED_MESSAGE) for bytes that are not the message, or have more tensors, or
// updates.
absl::StatusOr<ReceivedUpdate> ReadSubmitUpdate(ByteChain bytes);
absl::StatusOr<ReceivedStreamMessage> ReadStreamUpdates(ByteChain bytes);
absl::StatusOr<ReceivedReduceMessage> ReadReduce(ByteChain bytes);

// Requests that are names, numbers and times.
inline constexpr uint64_t kSmallRequestBytesMax = 65'536;

// The same for any other request, which is empty before. Of at most `bytes_max` bytes.
absl::Status ReadRequest(ByteChain bytes, uint64_t bytes_max, google::protobuf::Message* request);

// Cuts update ids that are longer than any valid one, by far, so that answers which wait, and what
// is remembered of refused updates, stay small: a message's ids may have megabytes.
void ShortenUpdateIds(ReceivedStreamMessage& message);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_RECEIVED_UPDATE_H_
