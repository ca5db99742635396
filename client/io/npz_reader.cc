// Reading: which layout, and tensors of indices, values and dense_shape. scipy_npz.cc has the rest.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"
#include "client/io/npz.h"
#include "client/io/values.h"

namespace sparseagg::client {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kParts[] = {"indices", "values", "dense_shape", "value_type"};

// Where the arrays of one tensor are. A plain array is its own values.
struct Group {
  std::string prefix;  // "" or "name/"
  std::string values;  // name of the member
  std::string name;    // of the tensor
};

Group GroupOf(const std::string& member) {
  const size_t slash = member.rfind('/');
  const size_t leaf = slash == std::string::npos ? 0 : slash + 1;
  const std::string_view part = std::string_view(member).substr(leaf);
  if (std::find(std::begin(kParts), std::end(kParts), part) == std::end(kParts)) {
    return {member + "/", member, member};
  }
  const std::string prefix = member.substr(0, leaf);
  return {prefix, prefix + "values", leaf == 0 ? "" : member.substr(0, slash)};
}

absl::StatusOr<std::vector<Group>> Groups(const ZipReader& zip) {
  std::vector<Group> groups;
  std::map<std::string, std::string> values_by_name;
  for (const ZipReader::Member& member : zip.members()) {
    if (!std::string_view(member.name).ends_with(kSuffix)) {
      return MalformedFile(zip.path(), absl::StrCat("member ", member.name), "is not a .npy array");
    }
    Group group = GroupOf(member.name.substr(0, member.name.size() - kSuffix.size()));
    const auto [known, is_new] = values_by_name.emplace(group.name, group.values);
    if (is_new) {
      groups.push_back(std::move(group));
    } else if (group.values != known->second) {
      // Whichever comes first: of "a" and "a/values", one would be taken for the other's.
      return MalformedFile(zip.path(), absl::StrCat("member ", member.name),
                           absl::StrCat("and ", known->second, ".npy are one name"));
    }
  }
  if (groups.size() > 1 && values_by_name.contains("")) {
    return MalformedFile(zip.path(), "",
                         "a tensor without a name stands beside others; name all of them");
  }
  return groups;
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const ZipReader& zip, const std::string& name) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip, name));
  if (array.shape.size() != 1) {
    return MalformedFile(zip.path(), MemberName(name), "is not one list of lengths");
  }
  return ToIntegers(array, zip.path(), MemberName(name));
}

absl::StatusOr<ValueType> TypeOf(const ZipReader& zip, const Group& group, const NpyArray& values) {
  std::optional<ValueType> type = NpyValueType(values);
  const std::string member = group.prefix + "value_type";
  if (HasMember(zip, member)) {
    SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip, member));
    const std::string stated = ToText(array).value_or("");
    const std::optional<ValueType> parsed = ParseValueType(stated);
    if (!parsed.has_value() || NpyDescr(*parsed) != values.dtype()) {
      return MalformedFile(
          zip.path(), MemberName(member),
          absl::StrCat("\"", stated, "\" does not fit values of type '", values.dtype(), "'"));
    }
    type = parsed;
  }
  if (type.has_value()) return *type;
  return MalformedFile(zip.path(), MemberName(group.values),
                       absl::StrCat("type '", values.dtype(),
                                    "' is not one of f2 f4 f8 i4 i8 u4 u8 (or u2 with value_type "
                                    "bf16); convert it with astype()"));
}

absl::StatusOr<Tensor> MakeTensor(const ZipReader& zip, const Group& group, TensorSpec spec) {
  if (spec.name.empty()) spec.name = "tensor";
  absl::StatusOr<Tensor> tensor = MakeEmptyTensor(spec);
  if (!tensor.ok()) {
    return MalformedFile(zip.path(), "", std::string(tensor.status().message()));
  }
  tensor->name = group.name;
  return tensor;
}

void TakeValues(const NpyArray& values, Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data().data());
  tensor.values.assign(bytes, bytes + values.data().size());
}

absl::StatusOr<Tensor> ReadDense(const ZipReader& zip, const Group& group, const NpyArray& values,
                                 ValueType type) {
  std::vector<int64_t> shape = values.shape;
  if (HasMember(zip, group.prefix + "dense_shape")) {
    SPARSEAGG_ASSIGN_OR_RETURN(shape, ReadShape(zip, group.prefix + "dense_shape"));
    if (shape != values.shape) {
      return MalformedFile(zip.path(), MemberName(group.prefix + "dense_shape"),
                           "is not the shape of the values, and there are no indices");
    }
  }
  if (shape.empty()) shape = {1};  // a number of NumPy; the Python client sends it so, too
  SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, MakeTensor(zip, group, {group.name, type, shape, 0}));
  tensor.indices = {0};
  TakeValues(values, tensor);
  return tensor;
}

absl::Status TakeIndices(const ZipReader& zip, const std::string& member, const NpyArray& array,
                         Tensor& tensor) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                             ToIntegers(array, zip.path(), MemberName(member)));
  const std::span<const int64_t> indexed_shape =
      std::span(tensor.dense_shape).first(tensor.sparse_dim);
  const auto nnz = static_cast<uint64_t>(array.shape[0]);
  tensor.indices.reserve(nnz);
  for (uint64_t i = 0; i < nnz; ++i) {
    const absl::StatusOr<uint64_t> row = FlattenIndex(
        std::span(numbers).subspan(i * tensor.sparse_dim, tensor.sparse_dim), indexed_shape);
    if (!row.ok()) {
      return MalformedFile(zip.path(), MemberName(member),
                           absl::StrCat("entry ", i, ": ", std::string(row.status().message())));
    }
    tensor.indices.push_back(*row);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadSparse(const ZipReader& zip, const Group& group, const NpyArray& values,
                                  ValueType type) {
  const std::string member = group.prefix + "indices";
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray indices, ReadMember(zip, member));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                             ReadShape(zip, group.prefix + "dense_shape"));
  const size_t rank = indices.shape.size();
  const int64_t sparse_dim = rank == 2 ? indices.shape[1] : 1;
  if (rank < 1 || rank > 2 || sparse_dim < 1 || sparse_dim > static_cast<int64_t>(shape.size())) {
    return MalformedFile(zip.path(), MemberName(member),
                         absl::StrCat("is not of shape [nnz, sparse_dim] with sparse_dim in [1, ",
                                      shape.size(), "]"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(
      Tensor tensor,
      MakeTensor(zip, group, {group.name, type, shape, static_cast<uint32_t>(sparse_dim)}));
  std::vector<int64_t> expected = {indices.shape[0]};
  expected.insert(expected.end(), shape.begin() + sparse_dim, shape.end());
  if (values.shape != expected) {
    return MalformedFile(zip.path(), MemberName(group.values),
                         absl::StrCat("is not one row of ", tensor.layout.row_width,
                                      " values for each of the ", indices.shape[0], " indices"));
  }
  SPARSEAGG_RETURN_IF_ERROR(TakeIndices(zip, member, indices, tensor));
  TakeValues(values, tensor);
  return tensor;
}

absl::StatusOr<Tensor> ReadGroup(const ZipReader& zip, const Group& group) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray values, ReadMember(zip, group.values));
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueType type, TypeOf(zip, group, values));
  if (HasMember(zip, group.prefix + "indices")) return ReadSparse(zip, group, values, type);
  return ReadDense(zip, group, values, type);
}

absl::StatusOr<std::vector<Tensor>> ReadAll(const ZipReader& zip) {
  std::vector<Tensor> tensors;
  if (HasMember(zip, "format") && HasMember(zip, "shape") && HasMember(zip, "data")) {
    SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, ReadScipy(zip));
    tensors.push_back(std::move(tensor));
    return tensors;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<Group> groups, Groups(zip));
  for (const Group& group : groups) {
    SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, ReadGroup(zip, group));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

bool HasMember(const ZipReader& zip, const std::string& name) {
  const std::string member = absl::StrCat(name, std::string(kSuffix));
  return std::any_of(zip.members().begin(), zip.members().end(),
                     [&](const ZipReader::Member& m) { return m.name == member; });
}

std::string MemberName(const std::string& name) {
  return absl::StrCat("member ", name, std::string(kSuffix));
}

absl::StatusOr<NpyArray> ReadMember(const ZipReader& zip, const std::string& name) {
  const std::string member = absl::StrCat(name, std::string(kSuffix));
  for (size_t i = 0; i < zip.members().size(); ++i) {
    if (zip.members()[i].name != member) continue;
    SPARSEAGG_ASSIGN_OR_RETURN(std::string content, zip.Read(i));
    return ParseNpy(std::move(content), zip.path(), MemberName(name));
  }
  return MalformedFile(zip.path(), MemberName(name), "is missing");
}

absl::StatusOr<std::vector<Tensor>> ReadNpz(const std::string& path, const ReadOptions& options) {
  SPARSEAGG_ASSIGN_OR_RETURN(const ZipReader zip, ZipReader::Open(path));
  uint64_t bytes = 0;
  for (const ZipReader::Member& member : zip.members()) {
    if (member.bytes > options.bytes_max - bytes) {
      return FileTooLarge(path, absl::StrCat("member ", member.name),
                          absl::StrCat("states ", member.bytes,
                                       " bytes; all members together may "
                                       "have ",
                                       options.bytes_max));
    }
    bytes += member.bytes;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ReadAll(zip));
  for (Tensor& tensor : tensors) {
    if (!options.value_type.has_value()) break;
    const absl::Status status = ConvertValues(*options.value_type, tensor);
    if (!status.ok()) {
      return MakeError(status.code(), ErrorReason(status),
                       absl::StrCat(path, ": ", std::string(status.message())));
    }
  }
  return tensors;
}

}  // namespace sparseagg::client
