// The layout of scipy.sparse.save_npz(): coo, csr and csc.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"
#include "client/io/npz.h"

namespace sparseagg::client {
namespace {

// All that save_npz() has written so far, of the formats that are read here.
constexpr std::string_view kMembers[] = {"format", "shape",   "data",   "row",      "col",
                                         "coords", "indices", "indptr", "_is_array"};

struct Positions {
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
};

absl::StatusOr<std::vector<int64_t>> ReadIntegers(const ZipReader& zip, const std::string& name,
                                                  size_t rank) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip, name));
  if (array.shape.size() != rank) {
    return MalformedFile(zip.path(), MemberName(name),
                         absl::StrCat("has ", array.shape.size(), " dimensions instead of ", rank));
  }
  return ToIntegers(array, zip.path(), MemberName(name));
}

absl::StatusOr<Positions> ReadCoo(const ZipReader& zip) {
  Positions positions;
  if (HasMember(zip, "coords")) {
    SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray coords, ReadMember(zip, "coords"));
    if (coords.shape.size() != 2 || coords.shape[0] != 2) {
      return MalformedFile(zip.path(), MemberName("coords"), "is not of shape [2, nnz]");
    }
    SPARSEAGG_ASSIGN_OR_RETURN(positions.rows,
                               ToIntegers(coords, zip.path(), MemberName("coords")));
    const auto half = positions.rows.begin() + static_cast<int64_t>(positions.rows.size() / 2);
    positions.columns.assign(half, positions.rows.end());
    positions.rows.erase(half, positions.rows.end());
    return positions;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(positions.rows, ReadIntegers(zip, "row", 1));
  SPARSEAGG_ASSIGN_OR_RETURN(positions.columns, ReadIntegers(zip, "col", 1));
  return positions;
}

// csr: indptr walks the rows, and indices are columns. `rows` is the number of them.
absl::StatusOr<Positions> ReadCompressed(const ZipReader& zip, int64_t rows) {
  Positions positions;
  SPARSEAGG_ASSIGN_OR_RETURN(positions.columns, ReadIntegers(zip, "indices", 1));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> indptr, ReadIntegers(zip, "indptr", 1));
  const auto nnz = static_cast<int64_t>(positions.columns.size());
  if (indptr.empty() || static_cast<int64_t>(indptr.size()) - 1 != rows || indptr.front() != 0 ||
      indptr.back() != nnz) {
    return MalformedFile(zip.path(), MemberName("indptr"),
                         absl::StrCat("is not ", rows, " + 1 positions from 0 to ", nnz));
  }
  positions.rows.reserve(positions.columns.size());
  for (size_t row = 0; row + 1 < indptr.size(); ++row) {
    // Beyond the end it must come down again later; nothing is taken for it until then.
    if (indptr[row] > indptr[row + 1] || indptr[row + 1] > nnz) {
      return MalformedFile(zip.path(), MemberName("indptr"),
                           absl::StrCat("has ", indptr[row + 1], " at position ", row + 1,
                                        ", which is not within ", indptr[row], " to ", nnz));
    }
    positions.rows.insert(positions.rows.end(), static_cast<size_t>(indptr[row + 1] - indptr[row]),
                          static_cast<int64_t>(row));
  }
  return positions;
}

absl::StatusOr<Positions> ReadPositions(const ZipReader& zip, std::span<const int64_t> shape) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip, "format"));
  const std::optional<std::string> format = ToText(array);
  if (format == "coo") return ReadCoo(zip);
  if (format == "csr") return ReadCompressed(zip, shape[0]);
  if (format == "csc") {
    SPARSEAGG_ASSIGN_OR_RETURN(Positions positions, ReadCompressed(zip, shape[1]));
    std::swap(positions.rows, positions.columns);
    return positions;
  }
  return MalformedFile(zip.path(), MemberName("format"),
                       absl::StrCat("\"", format.value_or("?"),
                                    "\" is not coo, csr or csc; convert it with .tocoo()"));
}

// Tensors beside the matrix would be left out without a word.
absl::Status CheckMembers(const ZipReader& zip) {
  for (const ZipReader::Member& member : zip.members()) {
    const bool known = std::any_of(
        std::begin(kMembers), std::end(kMembers),
        [&](std::string_view name) { return member.name == std::string(name) + ".npy"; });
    if (!known) {
      return MalformedFile(zip.path(), absl::StrCat("member ", member.name),
                           "is no part of the matrix of scipy.sparse that the file holds; a file "
                           "of several tensors has NAME/ before the members of each");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ReadScipy(const ZipReader& zip) {
  SPARSEAGG_RETURN_IF_ERROR(CheckMembers(zip));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, ReadIntegers(zip, "shape", 1));
  if (shape.size() != 2) {
    return MalformedFile(zip.path(), MemberName("shape"),
                         absl::StrCat("has ", shape.size(), " lengths instead of 2"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray data, ReadMember(zip, "data"));
  const std::optional<ValueType> type = NpyValueType(data);
  if (!type.has_value() || data.shape.size() != 1) {
    return MalformedFile(zip.path(), MemberName("data"),
                         absl::StrCat("type '", data.dtype(), "' with ", data.shape.size(),
                                      " dimensions is not one of f2 f4 f8 i4 i8 u4 u8 with 1"));
  }
  TensorSpec spec{"matrix", *type, shape, 2};
  absl::StatusOr<Tensor> tensor = MakeEmptyTensor(spec);
  if (!tensor.ok()) {
    return MalformedFile(zip.path(), MemberName("shape"), std::string(tensor.status().message()));
  }
  tensor->name.clear();
  SPARSEAGG_ASSIGN_OR_RETURN(const Positions positions, ReadPositions(zip, shape));
  if (positions.rows.size() != data.size() || positions.columns.size() != data.size()) {
    return MalformedFile(zip.path(), MemberName("data"),
                         absl::StrCat("has ", data.size(), " values for ", positions.rows.size(),
                                      " rows and ", positions.columns.size(), " columns"));
  }
  tensor->indices.reserve(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    const int64_t index[2] = {positions.rows[i], positions.columns[i]};
    const absl::StatusOr<uint64_t> row = FlattenIndex(index, shape);
    if (!row.ok()) {
      return MalformedFile(zip.path(), absl::StrCat("entry ", i),
                           std::string(row.status().message()));
    }
    tensor->indices.push_back(*row);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(data.data().data());
  tensor->values.assign(bytes, bytes + data.data().size());
  return tensor;
}

}  // namespace sparseagg::client
