// An encoding converts bytes to COO entries and back. Encodings are identified by name and listed
// in one table: a new one is one file and one row of AllEncodings().
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

// Decodes a tensor while its bytes arrive in pieces of any length: first all of its indices, then
// its values. Returns the same errors as Encoding::decode for the same bytes; nothing may be
// appended after an error. Thread-compatible.
class TensorDecoder {
 public:
  virtual ~TensorDecoder() = default;
  // REQUIRES: no more bytes, in total, than the header states.
  virtual absl::Status AppendIndices(std::string_view bytes) = 0;
  virtual absl::Status AppendValues(std::string_view bytes) = 0;
  // The order of the rows, once decoding has established it and that all rows are in range;
  // kUnknown otherwise.
  virtual EntryOrder order() const = 0;
  // Number of values decoded so far, from the front; all of them once all bytes have arrived.
  virtual uint64_t values() const = 0;
  // Number of those, from the front, that decoding has found to be finite f32 values.
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
  // Makes a decoder of the same tensor for bytes that arrive in pieces. It buffers what it cannot
  // decode before more has arrived: at most buffered_bytes() bytes. The arguments must outlive the
  // decoder. REQUIRES: inspect() succeeded.
  std::unique_ptr<TensorDecoder> (*decoder)(const EncodedHeader& header, const TensorSpec& spec,
                                            const MutableCooView& out);
  uint64_t (*buffered_bytes)(const EncodedHeader& header);
  // The compact forms in which the decoder can deliver the rows.
  CompactRowForms (*row_forms)(const EncodedHeader& header);
  // Appends the two payload arrays of `entries` and sets encoding, nnz and the sizes of `header`.
  // The caller sets name, value_type, dense_shape, sparse_dim and index_type.
  absl::Status (*encode)(const CooView& entries, EncodedHeader& header, std::string& indices,
                         std::string& values);
};

std::span<const Encoding> AllEncodings();
// The names of the value codings (EncodedHeader::values_encoding).
std::vector<std::string_view> AllValuesEncodings();
// Finds an encoding by name; "" means "coo.raw". Returns INVALID_ARGUMENT (UNKNOWN_ENCODING), with
// the known names, when there is none.
absl::StatusOr<const Encoding*> FindEncoding(std::string_view name);

// Checks that the header describes a tensor of `spec` (value type, shape, sparse_dim), then that
// its sizes agree. Returns INVALID_ARGUMENT: UNKNOWN_ENCODING, UNKNOWN_VALUES_ENCODING,
// TYPE_MISMATCH, SHAPE_MISMATCH or SIZE_MISMATCH.
absl::Status InspectTensor(const EncodedHeader& header, const TensorSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODING_H_
