// Parses the messages of clients from the received bytes. In messages with updates
// (SubmitUpdateRequest, StreamUpdatesRequest, UploadChunkRequest, ReduceRequest) payloads are not
// copied; protobuf parses the rest of them, and all other messages, without unknown fields
// (known_fields.h). The result is the same as that of protobuf's parser; a test compares the two.
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

// A whole update. Its payload consists of views into the message's bytes.
struct ReceivedUpdate {
  v1::UpdateHeader header;
  struct Tensor {
    v1::TensorHeader header;
    std::vector<std::string_view> indices;
    std::vector<std::string_view> values;
  };
  std::vector<Tensor> tensors;
};

// The memory of `update` beyond the message's bytes: up to 90 times as much, for tensors of two
// bytes.
uint64_t BytesHeld(const ReceivedUpdate& update);

// A chunk of an update; `data` consists of views into the message's bytes.
struct ReceivedChunk {
  std::string update_id;
  uint64_t offset = 0;
  std::optional<uint32_t> crc32c;
  std::vector<std::string_view> data;
};

// Whole updates that came in one message.
using ReceivedBatch = std::vector<ReceivedUpdate>;

// An UploadChunkRequest.
struct ReceivedUploadChunk {
  v1::BeginUpdate begin;
  std::optional<ReceivedChunk> chunk;
};

// A message without a body is std::monostate.
struct ReceivedStreamMessage {
  std::variant<std::monostate, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk, ReceivedBatch> body;
  bool takes_more = false;
};
using ReceivedReduceMessage =
    std::variant<std::monostate, v1::ReduceStart, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk>;

// INVALID_ARGUMENT (MALFORMED_MESSAGE) if the bytes are not such a message, or have too many
// tensors or updates.
absl::StatusOr<ReceivedUpdate> ReadSubmitUpdate(ByteChain bytes);
absl::StatusOr<ReceivedStreamMessage> ReadStreamUpdates(ByteChain bytes);
absl::StatusOr<ReceivedUploadChunk> ReadUploadChunk(ByteChain bytes);
absl::StatusOr<ReceivedReduceMessage> ReadReduce(ByteChain bytes);

// The limit for requests that consist of names, numbers and times.
inline constexpr uint64_t kSmallRequestBytesMax = 65'536;

// Parses any other request, of at most `bytes_max` bytes. Same error. REQUIRES: `request` is empty.
absl::Status ReadRequest(ByteChain bytes, uint64_t bytes_max, google::protobuf::Message* request);

// Truncates update ids that are far longer than any valid one, which may have megabytes, so that
// queued answers and the set of refused updates stay small.
void ShortenUpdateIds(ReceivedStreamMessage& message);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_RECEIVED_UPDATE_H_
