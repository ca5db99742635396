// Reading: finds the layout, and reads tensors of indices, values and dense_shape. scipy_npz.cc
// reads scipy's layouts.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"
#include "client/io/npz.h"
#include "client/io/values.h"

namespace sparseagg::client {
namespace {

constexpr const char* kSuffixes[] = {".npy", ".NPY"};
constexpr std::string_view kParts[] = {"indices", "values", "dense_shape", "value_type"};

// The members with the arrays of one tensor. A plain array is its own values.
struct Group {
  std::string prefix;  // "" or "name/"
  std::string values;  // name of the member
  std::string name;    // of the tensor
};

bool IsPart(std::string_view name) {
  return std::find(std::begin(kParts), std::end(kParts), name) != std::end(kParts);
}

Group PlainArray(const std::string& name) { return {name + "/", name, name}; }

Group GroupOf(const std::string& array) {
  const size_t slash = array.rfind('/');
  const size_t leaf = slash == std::string::npos ? 0 : slash + 1;
  if (!IsPart(std::string_view(array).substr(leaf))) return PlainArray(array);
  const std::string prefix = array.substr(0, leaf);
  return {prefix, prefix + "values", leaf == 0 ? "" : array.substr(0, slash)};
}

// The names of all arrays, in the order of the archive.
absl::StatusOr<std::vector<std::string>> ArrayNames(const ZipReader& zip) {
  std::vector<std::string> names;
  for (const ZipReader::Member& member : zip.members()) {
    std::optional<std::string> name = ArrayName(member.name);
    if (!name.has_value()) {
      return MalformedFile(zip.path(), absl::StrCat("member ", Excerpt(member.name)),
                           "is not a .npy array");
    }
    names.push_back(*std::move(name));
  }
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return names;
  return MalformedFile(zip.path(), MemberName(*twice), "appears twice");
}

// Whether the member "values" is a tensor of that name and not a part of a tensor without a name,
// which would be alone in the file.
bool ValuesIsAName(const std::vector<std::string>& names) {
  const auto others = std::count_if(names.begin(), names.end(), [](const std::string& name) {
    return name != "values" && IsPart(name);
  });
  return names.size() > 1 && others == 0;
}

absl::StatusOr<std::vector<Group>> Groups(const ZipReader& zip,
                                          const std::vector<std::string>& names) {
  const bool values_is_a_name = ValuesIsAName(names);
  std::vector<Group> groups;
  std::map<std::string, std::string> values_by_name;
  for (const std::string& name : names) {
    Group group = name == "values" && values_is_a_name ? PlainArray(name) : GroupOf(name);
    const auto [known, is_new] = values_by_name.emplace(group.name, group.values);
    if (is_new) {
      groups.push_back(std::move(group));
    } else if (group.values != known->second) {
      // Refused in either order: "a" and "a/values" would be the same tensor.
      return MalformedFile(zip.path(), MemberName(name),
                           absl::StrCat("and ", known->second, ".npy have the same name"));
    }
  }
  if (groups.size() > 1 && values_by_name.contains("")) {
    return MalformedFile(zip.path(), "",
                         "a tensor without a name is next to others; name all of them");
  }
  return groups;
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const ZipReader& zip, const std::string& name) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip, name));
  if (array.shape.size() != 1) {
    return MalformedFile(zip.path(), MemberName(name), "is not a list of lengths");
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
    const bool fits = parsed.has_value() && (parsed == type || NpyDescr(*parsed) == values.dtype());
    if (!fits) {
      return MalformedFile(
          zip.path(), MemberName(member),
          absl::StrCat(Quoted(stated), " does not fit values of type '", values.dtype(), "'"));
    }
    type = parsed;
  }
  if (type.has_value()) return *type;
  return MalformedFile(zip.path(), MemberName(group.values),
                       absl::StrCat("type '", values.dtype(),
                                    "' is not a number; save numbers, or remove the member"));
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

absl::StatusOr<Tensor> ReadDense(const ZipReader& zip, const Group& group, const NpyArray& values,
                                 ValueType type, TensorBudget& budget) {
  std::vector<int64_t> shape = values.shape;
  if (HasMember(zip, group.prefix + "dense_shape")) {
    SPARSEAGG_ASSIGN_OR_RETURN(shape, ReadShape(zip, group.prefix + "dense_shape"));
    if (shape != values.shape) {
      return MalformedFile(zip.path(), MemberName(group.prefix + "dense_shape"),
                           "is not the shape of the values, and there are no indices");
    }
  }
  if (shape.empty()) shape = {1};  // a NumPy scalar; the Python client also sends it in this form
  SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, MakeTensor(zip, group, {group.name, type, shape, 0}));
  SPARSEAGG_RETURN_IF_ERROR(budget.Take(MemberName(group.values), 1, tensor.layout));
  tensor.indices = {0};
  tensor.values = ToValues(values, type);
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
                                  ValueType type, TensorBudget& budget) {
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
  SPARSEAGG_RETURN_IF_ERROR(budget.Take(MemberName(group.values),
                                        static_cast<uint64_t>(indices.shape[0]), tensor.layout));
  SPARSEAGG_RETURN_IF_ERROR(TakeIndices(zip, member, indices, tensor));
  tensor.values = ToValues(values, type);
  return tensor;
}

absl::StatusOr<Tensor> ReadGroup(const ZipReader& zip, const Group& group, TensorBudget& budget) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray values, ReadMember(zip, group.values));
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueType type, TypeOf(zip, group, values));
  if (HasMember(zip, group.prefix + "indices")) {
    return ReadSparse(zip, group, values, type, budget);
  }
  return ReadDense(zip, group, values, type, budget);
}

absl::StatusOr<std::vector<Tensor>> ReadAll(const ZipReader& zip, TensorBudget& budget) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<std::string> names, ArrayNames(zip));
  std::vector<Tensor> tensors;
  SPARSEAGG_ASSIGN_OR_RETURN(const bool is_scipy, IsScipy(zip));
  if (is_scipy) {
    SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, ReadScipy(zip, budget));
    tensors.push_back(std::move(tensor));
    return tensors;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<Group> groups, Groups(zip, names));
  for (const Group& group : groups) {
    SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, ReadGroup(zip, group, budget));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

absl::Status TensorBudget::Take(const std::string& where, uint64_t entries,
                                const TensorLayout& layout) {
  const ValueType read_as = options_.value_type.value_or(layout.value_type);
  const size_t value_bytes = std::max(SizeOf(layout.value_type), SizeOf(read_as));
  const uint64_t entry_bytes = sizeof(uint64_t) + layout.row_width * uint64_t{value_bytes};
  if (entries > left_ / entry_bytes) {
    return FileTooLarge(
        path_, where,
        absl::StrCat(entries, " entries of ", entry_bytes,
                     " bytes exceed the rest of the limit of ", options_.bytes_max));
  }
  left_ -= entries * entry_bytes;
  return absl::OkStatus();
}

std::optional<std::string> ArrayName(const std::string& member) {
  for (const std::string_view suffix : kSuffixes) {
    if (std::string_view(member).ends_with(suffix)) {
      return member.substr(0, member.size() - suffix.size());
    }
  }
  return std::nullopt;
}

std::optional<size_t> FindArray(const ZipReader& zip, const std::string& name) {
  for (const char* suffix : kSuffixes) {
    if (const std::optional<size_t> index = zip.Find(name + suffix)) return index;
  }
  return std::nullopt;
}

bool HasMember(const ZipReader& zip, const std::string& name) {
  return FindArray(zip, name).has_value();
}

std::string MemberName(const std::string& name) { return absl::StrCat("member ", name, ".npy"); }

absl::StatusOr<NpyArray> ReadMember(const ZipReader& zip, const std::string& name) {
  const std::optional<size_t> index = FindArray(zip, name);
  if (!index.has_value()) return MalformedFile(zip.path(), MemberName(name), "is missing");
  SPARSEAGG_ASSIGN_OR_RETURN(std::string content, zip.Read(*index));
  return ParseNpy(std::move(content), zip.path(), MemberName(name));
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
  TensorBudget budget(path, options);
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ReadAll(zip, budget));
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
