// Whether a partial aggregate is of the tensors of a round.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/round_partial.h"

namespace sparseagg {
namespace {

// What differs between two specifications, in words.
std::string DifferenceOf(const TensorSpec& own, const TensorSpec& theirs) {
  const auto differs = [](std::string_view what, std::string_view mine, std::string_view other) {
    return absl::StrCat(std::string(what), " \"", std::string(other), "\", not \"",
                        std::string(mine), "\"");
  };
  if (own.op != theirs.op) return differs("operator", own.op, theirs.op);
  if (own.value_type != theirs.value_type) {
    return differs("value type", ValueTypeName(own.value_type), ValueTypeName(theirs.value_type));
  }
  if (own.dense_shape != theirs.dense_shape || own.sparse_dim != theirs.sparse_dim) {
    const auto text = [](const TensorSpec& spec) {
      std::string shape;
      for (const int64_t dimension : spec.dense_shape) absl::StrAppend(&shape, dimension, " ");
      return absl::StrCat(shape, "(sparse_dim ", spec.sparse_dim, ")");
    };
    return differs("shape", text(own), text(theirs));
  }
  if (own.integer_overflow != theirs.integer_overflow) {
    const auto text = [](const TensorSpec& spec) {
      return spec.integer_overflow == IntegerOverflow::kModular ? "modular" : "checked";
    };
    return differs("integer_overflow", text(own), text(theirs));
  }
  return "";
}

absl::Status Mismatch(std::string_view what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "SPEC_MISMATCH", what);
}

}  // namespace

absl::Status CheckSameTensors(std::span<const TensorSpec> own, std::span<const TensorSpec> theirs) {
  if (own.size() != theirs.size()) {
    return Mismatch(absl::StrCat("a partial aggregate of ", theirs.size(),
                                 " tensors cannot be merged into one of ", own.size()));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].name != theirs[i].name) {
      return Mismatch(absl::StrCat("tensor ", Quoted(own[i].name), ": the partial aggregate has ",
                                   Quoted(theirs[i].name), " in its place"));
    }
    const std::string difference = DifferenceOf(own[i], theirs[i]);
    if (difference.empty()) continue;
    return Mismatch(
        absl::StrCat("tensor ", Quoted(own[i].name), ": the partial aggregate has ", difference));
  }
  return absl::OkStatus();
}

}  // namespace sparseagg
