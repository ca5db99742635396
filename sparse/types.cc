#include "sparse/types.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "sparse/ops/all.h"

namespace sparseagg {
namespace {

absl::Status BadSpec(const std::string& name, const std::string& what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                   absl::StrCat("tensor \"", name, "\": ", what));
}

absl::Status CheckName(const std::string& name) {
  if (name.empty() || name.size() > kTensorNameBytesMax) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                     absl::StrCat("a tensor's name has ", name.size(), " bytes; it must have 1 to ",
                                  kTensorNameBytesMax));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                     "a tensor's name contains a control character");
  }
  return absl::OkStatus();
}

// Returns the product of dimensions [begin, end) of the shape, or an error when it is not below
// `limit`.
absl::StatusOr<uint64_t> Product(const TensorSpec& spec, size_t begin, size_t end, uint64_t limit,
                                 const char* what) {
  uint64_t product = 1;
  for (size_t d = begin; d < end; ++d) {
    const auto dim = static_cast<uint64_t>(spec.dense_shape[d]);
    if (product > (limit - 1) / dim) {
      return MakeError(absl::StatusCode::kInvalidArgument, "INDEX_SPACE_TOO_LARGE",
                       absl::StrCat("tensor \"", spec.name, "\": the ", what, " of shape [",
                                    absl::StrJoin(spec.dense_shape, ","),
                                    "] must multiply to less than ", limit));
    }
    product *= dim;
  }
  return product;
}

// Whether the operator ignores values, so that its result is a number of contributors for each row.
bool CountsRows(std::string_view op) {
  bool counts = false;
  AllOps::With(op, [&](auto type) { counts = decltype(type)::kValues == ValueSlots::kNone; });
  return counts;
}

}  // namespace

std::string_view ValueTypeName(ValueType type) {
  constexpr std::string_view kNames[] = {"f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64"};
  return kNames[static_cast<int>(type) - 1];
}

std::optional<ValueType> ParseValueType(std::string_view name) {
  for (ValueType type : kAllValueTypes) {
    if (ValueTypeName(type) == name) return type;
  }
  return std::nullopt;
}

absl::StatusOr<TensorLayout> MakeLayout(const TensorSpec& spec) {
  SPARSEAGG_RETURN_IF_ERROR(CheckName(spec.name));
  const size_t rank = spec.dense_shape.size();
  if (rank > kRankMax)
    return BadSpec(spec.name, absl::StrCat("rank ", rank, " is above ", kRankMax));
  if (spec.sparse_dim > rank) {
    return BadSpec(spec.name,
                   absl::StrCat("sparse_dim ", spec.sparse_dim, " is above the rank ", rank));
  }
  for (size_t d = 0; d < rank; ++d) {
    if (spec.dense_shape[d] < 1) {
      return BadSpec(spec.name, absl::StrCat("dimension ", d, " is ", spec.dense_shape[d],
                                             "; it must be at least 1"));
    }
  }
  TensorLayout layout;
  layout.value_type = spec.value_type;
  SPARSEAGG_ASSIGN_OR_RETURN(layout.num_rows,
                             Product(spec, 0, spec.sparse_dim, kNumRowsMax, "indexed dimensions"));
  const uint64_t width_max = spec.sparse_dim == 0 ? kDenseWidthMax : kRowWidthMax;
  SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t width, Product(spec, spec.sparse_dim, rank,
                                                           width_max + 1, "dense dimensions"));
  layout.row_width = static_cast<uint32_t>(width);
  return layout;
}

absl::StatusOr<ReduceSpec> MakeReduceSpec(const TensorSpec& spec) {
  ReduceSpec reduce;
  SPARSEAGG_ASSIGN_OR_RETURN(reduce.layout, MakeLayout(spec));
  reduce.name = spec.name;
  reduce.op = spec.op.empty() ? "sum" : spec.op;
  reduce.integer_overflow = spec.integer_overflow;
  bool is_mean = false;
  if (!AllOps::With(reduce.op, [&](auto op) { is_mean = decltype(op)::kIsMean; })) {
    std::string known;
    for (std::string_view name : AllOps::kNames)
      absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(name));
    return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_OPERATOR",
                     absl::StrCat("tensor \"", spec.name, "\": there is no operator \"", reduce.op,
                                  "\"; there are ", known));
  }
  if (is_mean && !IsFloating(spec.value_type) &&
      spec.integer_overflow == IntegerOverflow::kModular) {
    return BadSpec(
        spec.name,
        absl::StrCat(reduce.op,
                     " of modular integers has no meaning; use sum, or integer_overflow checked"));
  }
  return reduce;
}

TensorLayout ResultLayout(const ReduceSpec& spec) {
  TensorLayout layout = spec.layout;
  if (CountsRows(spec.op)) {
    layout.value_type = ValueType::kU64;
    layout.row_width = 1;
  }
  return layout;
}

TensorSpec ResultSpec(const TensorSpec& spec) {
  TensorSpec result = spec;
  if (!CountsRows(spec.op)) return result;
  result.value_type = ValueType::kU64;
  result.dense_shape.resize(spec.sparse_dim);
  if (spec.sparse_dim == 0) result.dense_shape = {1};
  return result;
}

}  // namespace sparseagg
