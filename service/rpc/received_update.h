// The data messages, SubmitUpdateRequest and StreamUpdatesRequest, read from the bytes that the
// network brought: their headers are parsed by protobuf, their payloads stay where they are. The
// bytes mean what protobuf's parser says they mean; a test compares the two.
#ifndef SPARSEAGG_SERVICE_RPC_RECEIVED_UPDATE_H_
#define SPARSEAGG_SERVICE_RPC_RECEIVED_UPDATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "service/rpc/update_proto.h"
#include "sparse/encoding.h"

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
using ReceivedStreamMessage =
    std::variant<std::monostate, ReceivedUpdate, v1::BeginUpdate, ReceivedChunk>;

// INVALID_ARGUMENT (MALFORMED_MESSAGE) for bytes that are not the message.
absl::StatusOr<ReceivedUpdate> ReadSubmitUpdate(ByteChain bytes);
absl::StatusOr<ReceivedStreamMessage> ReadStreamUpdates(ByteChain bytes);

// In the form that the engine takes; the chains point into `update`. INVALID_ARGUMENT for an enum
// value that this version does not know.
absl::StatusOr<std::vector<EncodedTensor>> EncodedTensorsOf(const ReceivedUpdate& update);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RECEIVED_UPDATE_H_
