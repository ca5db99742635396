// An update in its wire form: for each tensor a header, its indices and its values, in the encoding
// that the header names.
#ifndef SPARSEAGG_CLIENT_WIRE_ENCODED_UPDATE_H_
#define SPARSEAGG_CLIENT_WIRE_ENCODED_UPDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/types.h"
#include "sparse/encoding.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::client {

struct EncodedUpdate {
  std::string round;
  std::string contributor;
  std::string update_id;
  float weight = 1.0f;
  std::vector<EncodedHeader> headers;
  std::vector<std::string> pieces;  // indices, then values, of each tensor

  std::vector<TensorEncoding> encodings() const;
  uint64_t total_bytes() const;
  // Up to `n` bytes of the update's byte string from `offset` on.
  std::string Bytes(uint64_t offset, uint64_t n) const;
};

// Encodes an update as update.encoding and update.values say; "auto" uses coo.packed only if
// `server_knows_packed`. Raw indices are i32 if every indexed dimension allows it. An empty
// update_id becomes ContentUpdateId(). INVALID_ARGUMENT for a tensor whose shape, sparse_dim and
// layout do not agree, and the errors of EncodeTensor().
absl::StatusOr<EncodedUpdate> Encode(const std::string& round, const Update& update,
                                     bool server_knows_packed = true);

// The whole update in one message; moves the pieces out of `update`.
v1::SubmitUpdateRequest ToRequest(EncodedUpdate update);
v1::BeginUpdate ToBegin(const EncodedUpdate& update);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_WIRE_ENCODED_UPDATE_H_
