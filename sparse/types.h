// The core data types: what a tensor is, and how its entries lie in memory.
//
// A tensor is hybrid COO: its first `sparse_dim` dimensions are indexed, the rest is a dense row of
// `row_width` values. The core works on flattened rows: an entry is (row, row_width values), where
// row is the row-major position of the entry's index among the indexed dimensions. A tensor with
// sparse_dim == 0 is dense: num_rows is 1, and row 0 holds all of its values.
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
#include "sparse/rows/row_storage.h"

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

// The user's description of one tensor of a round.
struct TensorSpec {
  std::string name;
  ValueType value_type = ValueType::kF32;
  std::vector<int64_t> dense_shape;  // the full shape, each dimension >= 1
  uint32_t sparse_dim = 0;           // leading dimensions that are indexed; 0 is a dense tensor
  std::string op = "sum";
  IntegerOverflow integer_overflow = IntegerOverflow::kChecked;
  std::string plan;  // forces an algorithm; empty lets the planner choose
};

// The flattened shape of a tensor, which the core works on.
struct TensorLayout {
  uint64_t num_rows = 0;   // product of the indexed dimensions; 1 when there are none
  uint32_t row_width = 1;  // product of the other dimensions; 1 when there are none
  ValueType value_type = ValueType::kF32;

  uint64_t row_bytes() const { return uint64_t{row_width} * SizeOf(value_type); }
  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

// Flattens a spec. Returns INVALID_ARGUMENT, naming the tensor and the limit: INVALID_SPEC for a
// bad name, rank, dimension or sparse_dim; INDEX_SPACE_TOO_LARGE for an index space of 2^63 rows or
// more, and for a row wider than kRowWidthMax (kDenseWidthMax when sparse_dim is 0).
absl::StatusOr<TensorLayout> MakeLayout(const TensorSpec& spec);

// The order of the rows of an update.
enum class EntryOrder : uint8_t {
  kUnknown,  // not checked yet
  kUnsorted,
  kSorted,     // non-descending; rows may repeat
  kCanonical,  // strictly ascending; no row repeats
};

// A read-only view of entries in host memory. Rows need not be sorted or distinct; the values of
// equal rows are summed.
struct CooView {
  TensorLayout layout;
  uint64_t nnz = 0;
  RowView rows;                  // the flattened row of each entry
  const void* values = nullptr;  // [nnz, row_width] of layout.value_type
};

// The same, for a decoder to write.
struct MutableCooView {
  TensorLayout layout;
  uint64_t nnz = 0;
  RowStorage rows;
  void* values = nullptr;

  CooView view() const { return {layout, nnz, rows, values}; }
};

// A canonical tensor: its rows are strictly ascending.
struct SparseTensor {
  TensorLayout layout;
  RowIds indices;                // [nnz]
  HostVector<std::byte> values;  // [nnz, row_width] of layout.value_type

  uint64_t nnz() const { return indices.size(); }
  friend bool operator==(const SparseTensor&, const SparseTensor&) = default;
};

// One reduction: its tensor, its operator and its overflow rule.
struct ReduceSpec {
  std::string name;  // the tensor's name, for messages
  TensorLayout layout;
  std::string op = "sum";
  IntegerOverflow integer_overflow = IntegerOverflow::kChecked;
};

// Flattens a spec and checks its operator. Returns INVALID_ARGUMENT for the errors of MakeLayout(),
// an unknown operator (UNKNOWN_OPERATOR), and a mean of modular integers (INVALID_SPEC).
absl::StatusOr<ReduceSpec> MakeReduceSpec(const TensorSpec& spec);

// Returns the layout of the result of `spec`: that of the input, except u64 of width 1 for an
// operator without value slots ("count").
TensorLayout ResultLayout(const ReduceSpec& spec);
// Returns the type and shape of the result of `spec`: those of `spec`, except for an operator
// without value slots, whose result is u64 with one value for each row ({1} if dense).
TensorSpec ResultSpec(const TensorSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_TYPES_H_
