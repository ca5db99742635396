// The words of the project as types: what a tensor is, and how its entries lie in memory.
//
// A tensor is hybrid COO: its first `sparse_dim` dimensions are indexed, the rest is a dense row of
// `row_width` values. The core works on flattened rows: an entry is (row, row_width values), with
// row = the row-major position of the entry's index among the leading dimensions. sparse_dim == 0
// is a dense tensor: num_rows 1, all of it in row 0.
#ifndef SPARSEAGG_SPARSE_TYPES_H_
#define SPARSEAGG_SPARSE_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/host_vector.h"
#include "sparse/rows/row_ids.h"

namespace sparseagg {

enum class ValueType : uint8_t { kF16 = 1, kBF16, kF32, kF64, kI32, kI64, kU32, kU64 };

inline constexpr ValueType kAllValueTypes[] = {ValueType::kF16, ValueType::kBF16, ValueType::kF32,
                                               ValueType::kF64, ValueType::kI32,  ValueType::kI64,
                                               ValueType::kU32, ValueType::kU64};

// Bytes of one value.
constexpr size_t SizeOf(ValueType type) {
  switch (type) {
    case ValueType::kF16:
    case ValueType::kBF16:
      return 2;
    case ValueType::kF32:
    case ValueType::kI32:
    case ValueType::kU32:
      return 4;
    case ValueType::kF64:
    case ValueType::kI64:
    case ValueType::kU64:
      return 8;
  }
  return 0;
}

constexpr bool IsFloating(ValueType type) { return type <= ValueType::kF64; }

// "f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64".
std::string_view ValueTypeName(ValueType type);
std::optional<ValueType> ParseValueType(std::string_view name);

// What happens to integer sums outside the range of their type.
enum class IntegerOverflow : uint8_t {
  kChecked = 1,  // Report() fails with OUT_OF_RANGE and names the index
  kModular = 2,  // wraps modulo 2^bits
};

inline constexpr size_t kTensorNameBytesMax = 255;
inline constexpr size_t kRankMax = 16;
inline constexpr uint64_t kNumRowsMax = uint64_t{1} << 63;     // exclusive
inline constexpr uint64_t kRowWidthMax = uint64_t{1} << 20;    // sparse tensors
inline constexpr uint64_t kDenseWidthMax = uint64_t{1} << 31;  // sparse_dim == 0

// What a user states about one tensor of a round.
struct TensorSpec {
  std::string name;
  ValueType value_type = ValueType::kF32;
  std::vector<int64_t> dense_shape;  // the full shape, each dimension >= 1
  uint32_t sparse_dim = 0;           // leading dimensions that are indexed; 0 is a dense tensor
  std::string op = "sum";
  IntegerOverflow integer_overflow = IntegerOverflow::kChecked;
  std::string plan;  // forces an algorithm; empty lets the planner choose
};

// What the core works on.
struct TensorLayout {
  uint64_t num_rows = 0;   // product of the indexed dimensions; 1 when there are none
  uint32_t row_width = 1;  // product of the other dimensions; 1 when there are none
  ValueType value_type = ValueType::kF32;

  uint64_t row_bytes() const { return uint64_t{row_width} * SizeOf(value_type); }
  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

// Flattens a spec. INVALID_ARGUMENT, naming the tensor and the limit: a bad name, rank, dimension,
// sparse_dim, an index space of 2^63 rows or more, a row wider than kRowWidthMax (kDenseWidthMax
// for sparse_dim 0).
absl::StatusOr<TensorLayout> MakeLayout(const TensorSpec& spec);

// How the rows of an update follow one another.
enum class EntryOrder : uint8_t {
  kUnknown,
  kUnsorted,
  kSorted,     // never descending
  kCanonical,  // strictly ascending: sorted, no row twice
};

class NarrowRows;

// Entries in host memory. Rows need be neither sorted nor distinct; equal rows are summed.
struct CooView {
  TensorLayout layout;
  uint64_t nnz = 0;
  const uint64_t* indices = nullptr;  // [nnz], flattened row of each entry
  const void* values = nullptr;       // [nnz, row_width] of layout.value_type
  // In place of `indices`, null then, where a back end has asked for it
  // (Aggregator::StageArriving): the rows as coo.packed encodes them (sparse/rows/packed_rows.h),
  // or in two bytes each (sparse/rows/narrow_rows.h).
  const char* packed_rows = nullptr;
  uint64_t packed_rows_bytes = 0;
  const NarrowRows* narrow_rows = nullptr;
};

struct MutableCooView {
  TensorLayout layout;
  uint64_t nnz = 0;
  uint64_t* indices = nullptr;  // [nnz]
  void* values = nullptr;       // [nnz, row_width]
  char* packed_rows = nullptr;  // as in CooView; kBlockSlackBytes more can be read
  uint64_t packed_rows_bytes = 0;
  NarrowRows* narrow_rows = nullptr;

  CooView view() const {
    return {layout, nnz, indices, values, packed_rows, packed_rows_bytes, narrow_rows};
  }
};

// A canonical tensor: rows strictly ascending.
struct SparseTensor {
  TensorLayout layout;
  RowIds indices;                // [nnz]
  HostVector<std::byte> values;  // [nnz, row_width] of layout.value_type

  uint64_t nnz() const { return indices.size(); }
  friend bool operator==(const SparseTensor&, const SparseTensor&) = default;
};

// One reduction: what is summed, and how.
struct ReduceSpec {
  std::string name;  // the tensor's, for messages
  TensorLayout layout;
  std::string op = "sum";
  IntegerOverflow integer_overflow = IntegerOverflow::kChecked;
};

// Checks the operator, too: INVALID_ARGUMENT for an unknown one, or for a mean of modular integers.
absl::StatusOr<ReduceSpec> MakeReduceSpec(const TensorSpec& spec);

// Layout of the result of `spec`: that of the input, but u64 of width 1 for "count".
TensorLayout ResultLayout(const ReduceSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_TYPES_H_
