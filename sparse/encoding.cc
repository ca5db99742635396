#include "sparse/encoding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/encodings/coo_raw.h"
#include "sparse/encodings/value_coding.h"

namespace sparseagg {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape, uint32_t sparse_dim) {
  const std::string dims = shape.size() > kRankMax
                               ? absl::StrCat(shape.size(), " dimensions")
                               : absl::StrCat("[", absl::StrJoin(shape, ","), "]");
  return absl::StrCat(dims, " with sparse_dim ", sparse_dim);
}

}  // namespace

std::span<const Encoding> AllEncodings() {
  static constexpr Encoding kEncodings[] = {kCooRaw, kCooPacked};
  return kEncodings;
}

std::vector<std::string_view> AllValuesEncodings() {
  std::vector<std::string_view> names;
  for (const ValueCoding& coding : AllValueCodings()) names.push_back(coding.name);
  return names;
}

absl::StatusOr<const Encoding*> FindEncoding(std::string_view name) {
  if (name.empty()) name = kCooRaw.name;
  std::string known;
  for (const Encoding& encoding : AllEncodings()) {
    if (encoding.name == name) return &encoding;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(encoding.name));
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, "UNKNOWN_ENCODING",
      absl::StrCat("there is no encoding \"", std::string(name), "\"; there are ", known));
}

absl::Status InspectTensor(const EncodedHeader& header, const TensorSpec& spec) {
  const auto encoding = FindEncoding(header.encoding);
  if (!encoding.ok()) {
    return MakeError(
        encoding.status().code(), ErrorReason(encoding.status()),
        absl::StrCat("tensor \"", spec.name, "\": ", std::string(encoding.status().message())));
  }
  if (header.value_type != spec.value_type) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "TYPE_MISMATCH",
        absl::StrCat("tensor \"", spec.name, "\": values are ",
                     std::string(ValueTypeName(header.value_type)), ", the round expects ",
                     std::string(ValueTypeName(spec.value_type))));
  }
  if (header.dense_shape != spec.dense_shape || header.sparse_dim != spec.sparse_dim) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "SHAPE_MISMATCH",
        absl::StrCat("tensor \"", spec.name, "\": shape is ",
                     ShapeText(header.dense_shape, header.sparse_dim), ", the round expects ",
                     ShapeText(spec.dense_shape, spec.sparse_dim)));
  }
  return (*encoding)->inspect(header, spec);
}

}  // namespace sparseagg
