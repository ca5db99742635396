// Messages of the protocol in one line each, for tests.
#ifndef SPARSEAGG_TESTS_SERVICE_RPC_MESSAGES_H_
#define SPARSEAGG_TESTS_SERVICE_RPC_MESSAGES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::testing {

// The bytes of an array on the wire.
template <typename T>
std::string Bytes(const std::vector<T>& array) {
  return std::string(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T));
}

// REQUIRES: the size is a multiple of sizeof(T).
template <typename T>
std::vector<T> ArrayOf(const std::string& bytes) {
  std::vector<T> array(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(array.data(), bytes.data(), bytes.size());
  return array;
}

// A scalar COO tensor of f32 with one dimension.
v1::TensorSpec VectorSpec(const std::string& name, int64_t size, const std::string& op = "sum");
// A round of one such tensor.
v1::RoundSpec VectorRound(const std::string& name, int64_t size, const std::string& op = "sum");

// Entries for a tensor of VectorSpec().
v1::Tensor VectorEntries(const std::string& name, int64_t size, const std::vector<int64_t>& indices,
                         const std::vector<float>& values);

// One contributor's update of one tensor, under update_id "u-<contributor>".
v1::SubmitUpdateRequest VectorUpdate(const std::string& round, const std::string& contributor,
                                     v1::Tensor tensor);

// The same update for the chunked way: its BeginUpdate and its byte string.
struct ChunkedUpdate {
  v1::BeginUpdate begin;
  std::string bytes;
};
ChunkedUpdate Chunked(const v1::SubmitUpdateRequest& update);
v1::UpdateChunk ChunkOf(const ChunkedUpdate& update, uint64_t offset, uint64_t size);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_RPC_MESSAGES_H_
