// Encodings turn bytes into COO entries and back. They are named by strings and listed in one
// table: a new encoding is one file and one row of AllEncodings().
#ifndef SPARSEAGG_SPARSE_ENCODING_H_
#define SPARSEAGG_SPARSE_ENCODING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg {

enum class IndexType : uint8_t { kI64 = 1, kI32 = 2 };
constexpr size_t SizeOf(IndexType type) { return type == IndexType::kI32 ? 4 : 8; }

// Bytes in one or more pieces, in order, as they came from the network. Does not own them.
using ByteChain = std::span<const std::string_view>;

// What the sender states about an encoded tensor, before its payload is read.
struct EncodedHeader {
  std::string name;
  std::string encoding = "coo.raw";
  std::string values_encoding;  // of coo.packed (sparse/encodings/value_coding.h); "": raw
  ValueType value_type = ValueType::kF32;
  std::vector<int64_t> dense_shape;
  uint32_t sparse_dim = 0;
  IndexType index_type = IndexType::kI64;
  uint64_t nnz = 0;
  uint64_t indices_bytes = 0;
  uint64_t values_bytes = 0;
};

// Decodes a tensor while its bytes arrive, in pieces of any length: first all of its indices, then
// its values. An error is what Encoding::decode says of the same bytes; nothing may follow it.
// Thread-compatible.
class TensorDecoder {
 public:
  virtual ~TensorDecoder() = default;
  // REQUIRES: no more bytes than the header states.
  virtual absl::Status AppendIndices(std::string_view bytes) = 0;
  virtual absl::Status AppendValues(std::string_view bytes) = 0;
  // How the rows are ordered, when decoding has shown that and that all of them are in range.
  virtual EntryOrder order() const = 0;
  // How many values are decoded, from the front: all of them when all bytes are there.
  virtual uint64_t values() const = 0;
  // How many of them, from the front, decoding has found to be finite f32 values.
  virtual uint64_t finite_values() const { return 0; }
};

struct Encoding {
  std::string_view name;
  // Checks the stated sizes against nnz and the spec, without the payload. Everything that bounds
  // an allocation is checked here. Errors name the tensor.
  absl::Status (*inspect)(const EncodedHeader& header, const TensorSpec& spec);
  // Decodes into `out` (out.nnz == header.nnz, memory owned by the caller). Every index is checked
  // against the shape and flattened. REQUIRES: inspect() succeeded; the chains hold indices_bytes
  // and values_bytes bytes.
  absl::Status (*decode)(const EncodedHeader& header, const TensorSpec& spec, ByteChain indices,
                         ByteChain values, const MutableCooView& out);
  // The same bit by bit. What cannot be decoded before the rest is there is kept: kept_bytes() at
  // most. The arguments must outlive the decoder. REQUIRES: inspect() succeeded.
  std::unique_ptr<TensorDecoder> (*decoder)(const EncodedHeader& header, const TensorSpec& spec,
                                            const MutableCooView& out);
  uint64_t (*kept_bytes)(const EncodedHeader& header);
  // Appends the two payload arrays of `entries` and fills the sizes of `header` (name, value_type,
  // dense_shape, sparse_dim and index_type are the caller's).
  absl::Status (*encode)(const CooView& entries, EncodedHeader& header, std::string& indices,
                         std::string& values);
};

std::span<const Encoding> AllEncodings();
// Names of the codings of values (EncodedHeader::values_encoding).
std::vector<std::string_view> AllValuesEncodings();
// "" means "coo.raw". INVALID_ARGUMENT with the known names when there is no such encoding.
absl::StatusOr<const Encoding*> FindEncoding(std::string_view name);

// Checks that the header describes a tensor of `spec` (value type, shape, sparse_dim), then that
// the sizes agree. Reasons: UNKNOWN_ENCODING, UNKNOWN_VALUES_ENCODING, TYPE_MISMATCH,
// SHAPE_MISMATCH, SIZE_MISMATCH.
absl::Status InspectTensor(const EncodedHeader& header, const TensorSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODING_H_
