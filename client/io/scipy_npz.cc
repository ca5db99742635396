// The layout of scipy.sparse.save_npz(): coo, csr, csc, bsr and dia.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/io/file_error.h"
#include "client/io/npz.h"
#include "sparse/values.h"

namespace sparseagg::client {
namespace {

// All members that versions of save_npz() have written so far.
constexpr std::string_view kMembers[] = {"format", "shape",   "data",   "row",     "col",
                                         "coords", "indices", "indptr", "offsets", "_is_array"};

absl::StatusOr<std::vector<int64_t>> ReadIntegers(const ZipReader& zip, const std::string& name) {
  SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip, name));
  if (array.shape.size() != 1) {
    return MalformedFile(zip.path(), MemberName(name),
                         absl::StrCat("has ", array.shape.size(), " dimensions instead of 1"));
  }
  return ToIntegers(array, zip.path(), MemberName(name));
}

// Reads the one tensor of an archive.
class ScipyReader {
 public:
  ScipyReader(const ZipReader& zip, TensorBudget& budget) : zip_(zip), budget_(budget) {}

  absl::StatusOr<Tensor> Read() {
    SPARSEAGG_RETURN_IF_ERROR(CheckMembers());
    SPARSEAGG_RETURN_IF_ERROR(ReadShapeAndData());
    SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip_, "format"));
    const std::string format = ToText(array).value_or("?");
    SPARSEAGG_RETURN_IF_ERROR(ReadEntries(format));
    return std::move(tensor_);
  }

 private:
  // Refuses further tensors in the archive, which would be ignored silently.
  absl::Status CheckMembers() const {
    for (const ZipReader::Member& member : zip_.members()) {
      const std::string name = ArrayName(member.name).value_or("");
      if (std::find(std::begin(kMembers), std::end(kMembers), name) == std::end(kMembers)) {
        return MalformedFile(zip_.path(), absl::StrCat("member ", Excerpt(member.name)),
                             "is not part of the scipy.sparse matrix in this file; in a file of "
                             "several tensors, put NAME/ before the members of each");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadShapeAndData() {
    SPARSEAGG_ASSIGN_OR_RETURN(shape_, ReadIntegers(zip_, "shape"));
    SPARSEAGG_ASSIGN_OR_RETURN(data_, ReadMember(zip_, "data"));
    const std::optional<ValueType> type = NpyValueType(data_);
    if (!type.has_value()) {
      return MalformedFile(zip_.path(), MemberName("data"),
                           absl::StrCat("type '", data_.dtype(), "' is not a number"));
    }
    const TensorSpec spec{"matrix", *type, shape_, static_cast<uint32_t>(shape_.size())};
    absl::StatusOr<Tensor> tensor = MakeEmptyTensor(spec);
    if (!tensor.ok()) return Malformed("shape", std::string(tensor.status().message()));
    if (shape_.empty()) return Malformed("shape", "is empty");
    tensor_ = *std::move(tensor);
    tensor_.name.clear();
    SPARSEAGG_RETURN_IF_ERROR(budget_.Take(MemberName("data"), data_.size(), tensor_.layout));
    values_ = ToValues(data_, *type);
    data_.file.clear();
    data_.file.shrink_to_fit();
    data_.data_begin = 0;
    tensor_.indices.reserve(values_.size() / SizeOf(*type));
    return absl::OkStatus();
  }

  absl::Status ReadEntries(const std::string& format) {
    const size_t rank = shape_.size();
    if (format == "coo") return HasMember(zip_, "coords") ? ReadCoords() : ReadRowsAndColumns();
    if (format == "csr" && rank == 1) return ReadCompressed(0, 1);
    if (rank == 2) {
      if (format == "csr") return ReadCompressed(0, static_cast<uint64_t>(shape_[0]));
      if (format == "csc") return ReadCompressed(1, static_cast<uint64_t>(shape_[1]));
      if (format == "bsr") return ReadBlocks();
      if (format == "dia") return ReadDiagonals();
    }
    return MalformedFile(zip_.path(), MemberName("format"),
                         absl::StrCat(Quoted(format), " of ", rank,
                                      " dimensions is not coo, or csr, csc, bsr or dia of 2; "
                                      "convert it with .tocoo()"));
  }

  absl::Status Malformed(const std::string& member, const std::string& what) const {
    return MalformedFile(zip_.path(), MemberName(member), what);
  }

  absl::Status CheckDataShape(const std::vector<int64_t>& expected) const {
    if (data_.shape == expected) return absl::OkStatus();
    return Malformed("data", absl::StrCat("is of shape [", absl::StrJoin(data_.shape, ", "),
                                          "] instead of [", absl::StrJoin(expected, ", "), "]"));
  }

  // Appends entry `i` of the data at position `index`.
  absl::Status Append(std::span<const int64_t> index, uint64_t i) {
    const absl::StatusOr<uint64_t> row = FlattenIndex(index, shape_);
    if (!row.ok()) {
      return MalformedFile(zip_.path(), absl::StrCat("entry ", i),
                           std::string(row.status().message()));
    }
    tensor_.indices.push_back(*row);
    return absl::OkStatus();
  }

  // Uses the first values of the data, one for each index.
  absl::Status TakeFirstValues() {
    values_.resize(tensor_.indices.size() * SizeOf(tensor_.layout.value_type));
    tensor_.values = std::move(values_);
    return absl::OkStatus();
  }

  absl::Status ReadCoords() {
    SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray coords, ReadMember(zip_, "coords"));
    const size_t rank = shape_.size();
    if (coords.shape.size() != 2 || coords.shape[0] != static_cast<int64_t>(rank)) {
      return Malformed("coords", absl::StrCat("is not of shape [", rank, ", nnz]"));
    }
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                               ToIntegers(coords, zip_.path(), MemberName("coords")));
    return AppendCoordinates(numbers, static_cast<uint64_t>(coords.shape[1]));
  }

  // `numbers` has `nnz` positions of the first dimension, then of the second, and so on.
  absl::Status AppendCoordinates(std::span<const int64_t> numbers, uint64_t nnz) {
    SPARSEAGG_RETURN_IF_ERROR(CheckDataShape({static_cast<int64_t>(nnz)}));
    std::vector<int64_t> index(shape_.size());
    for (uint64_t i = 0; i < nnz; ++i) {
      for (size_t d = 0; d < index.size(); ++d) index[d] = numbers[d * nnz + i];
      SPARSEAGG_RETURN_IF_ERROR(Append(index, i));
    }
    return TakeFirstValues();
  }

  absl::Status ReadRowsAndColumns() {
    SPARSEAGG_ASSIGN_OR_RETURN(std::vector<int64_t> rows, ReadIntegers(zip_, "row"));
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> columns, ReadIntegers(zip_, "col"));
    if (rows.size() != columns.size()) {
      return Malformed("col",
                       absl::StrCat("has ", columns.size(), " numbers, row has ", rows.size()));
    }
    const uint64_t nnz = columns.size();
    if (shape_.size() == 1) {
      // SciPy 1.13 to 1.16 stores the index in col.
      if (std::any_of(rows.begin(), rows.end(), [](int64_t row) { return row != 0; })) {
        return Malformed("row", "is not 0 everywhere, though the array has one dimension");
      }
      return AppendCoordinates(columns, nnz);
    }
    if (shape_.size() != 2) {
      return Malformed("shape",
                       absl::StrCat("has ", shape_.size(),
                                    " lengths, but row and col have only 2 dimensions: SciPy "
                                    "before 1.17 loses the others; save it with a newer SciPy"));
    }
    rows.insert(rows.end(), columns.begin(), columns.end());
    return AppendCoordinates(rows, nnz);
  }

  // Reads indptr, the position in `indices` at which each of `lines` lines begins. Elements after
  // the end of the last line are unused capacity.
  absl::StatusOr<std::vector<int64_t>> ReadLineBegins(uint64_t lines, uint64_t indices) {
    SPARSEAGG_ASSIGN_OR_RETURN(std::vector<int64_t> begins, ReadIntegers(zip_, "indptr"));
    if (begins.empty() || begins.size() - 1 != lines || begins.front() != 0) {
      return Malformed("indptr", absl::StrCat("is not ", lines, " + 1 positions from 0 on"));
    }
    for (size_t i = 1; i < begins.size(); ++i) {
      if (begins[i] < begins[i - 1] || begins[i] > static_cast<int64_t>(indices)) {
        return Malformed(
            "indptr", absl::StrCat("has ", begins[i], " at position ", i, ", which is not within ",
                                   begins[i - 1], " to ", indices));
      }
    }
    return begins;
  }

  // Reads csr (line_dimension 0) or csc (1). An array of one dimension has a single line without a
  // number.
  absl::Status ReadCompressed(size_t line_dimension, uint64_t lines) {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIntegers(zip_, "indices"));
    SPARSEAGG_RETURN_IF_ERROR(CheckDataShape({static_cast<int64_t>(indices.size())}));
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> begins,
                               ReadLineBegins(lines, indices.size()));
    std::vector<int64_t> index(shape_.size());
    for (uint64_t line = 0; line < lines; ++line) {
      for (auto i = static_cast<uint64_t>(begins[line]);
           i < static_cast<uint64_t>(begins[line + 1]); ++i) {
        index[line_dimension] = static_cast<int64_t>(line);
        index[index.size() - 1 - line_dimension] = indices[i];
        SPARSEAGG_RETURN_IF_ERROR(Append(index, i));
      }
    }
    return TakeFirstValues();
  }

  // Reads bsr: csr of dense blocks of one shape.
  absl::Status ReadBlocks() {
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIntegers(zip_, "indices"));
    const std::vector<int64_t> block = data_.shape;
    if (block.size() != 3 || block[1] < 1 || block[2] < 1 || shape_[0] % block[1] != 0 ||
        shape_[1] % block[2] != 0) {
      return Malformed("data", absl::StrCat("of shape [", absl::StrJoin(block, ", "),
                                            "] has no blocks that divide a matrix of ", shape_[0],
                                            " rows and ", shape_[1], " columns"));
    }
    SPARSEAGG_RETURN_IF_ERROR(
        CheckDataShape({static_cast<int64_t>(indices.size()), block[1], block[2]}));
    const int64_t block_columns = shape_[1] / block[2];
    SPARSEAGG_ASSIGN_OR_RETURN(
        const std::vector<int64_t> begins,
        ReadLineBegins(static_cast<uint64_t>(shape_[0] / block[1]), indices.size()));
    for (size_t line = 0; line + 1 < begins.size(); ++line) {
      for (int64_t b = begins[line]; b < begins[line + 1]; ++b) {
        const int64_t column = indices[static_cast<size_t>(b)];
        if (column >= block_columns) {
          return Malformed("indices",
                           absl::StrCat("has ", column, " at position ", b, ", there are ",
                                        block_columns, " columns of blocks"));
        }
        SPARSEAGG_RETURN_IF_ERROR(AppendBlock(static_cast<int64_t>(line) * block[1],
                                              column * block[2], block[1], block[2]));
      }
    }
    return TakeFirstValues();
  }

  absl::Status AppendBlock(int64_t first_row, int64_t first_column, int64_t rows, int64_t columns) {
    for (int64_t row = first_row; row < first_row + rows; ++row) {
      for (int64_t column = first_column; column < first_column + columns; ++column) {
        const int64_t index[] = {row, column};
        SPARSEAGG_RETURN_IF_ERROR(Append(index, tensor_.indices.size()));
      }
    }
    return absl::OkStatus();
  }

  // Reads dia: each row of the data is a diagonal, whose entry j is in column j. Elements outside
  // of the matrix have any value. Zeros are not entries, as in SciPy.
  absl::Status ReadDiagonals() {
    SPARSEAGG_ASSIGN_OR_RETURN(const NpyArray array, ReadMember(zip_, "offsets"));
    SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                               ToSignedIntegers(array, zip_.path(), MemberName("offsets")));
    const int64_t length = data_.shape.size() == 2 ? data_.shape[1] : 0;
    SPARSEAGG_RETURN_IF_ERROR(CheckDataShape({static_cast<int64_t>(offsets.size()), length}));
    std::set<int64_t> seen;
    for (size_t d = 0; d < offsets.size(); ++d) {
      if (!seen.insert(offsets[d]).second) {
        return Malformed("offsets", absl::StrCat("has ", offsets[d], " twice"));
      }
      SPARSEAGG_RETURN_IF_ERROR(AppendDiagonal(d, offsets[d], length));
    }
    return absl::OkStatus();
  }

  absl::Status AppendDiagonal(size_t d, int64_t offset, int64_t length) {
    const ValueType type = tensor_.layout.value_type;
    const auto end = static_cast<int64_t>(
        std::min<Int128>({length, shape_[1], static_cast<Int128>(shape_[0]) + offset}));
    for (int64_t column = std::max<int64_t>(0, offset); column < end; ++column) {
      const uint64_t i = d * static_cast<uint64_t>(length) + static_cast<uint64_t>(column);
      const std::byte* const value = values_.data() + i * SizeOf(type);
      if (IsZero(value)) continue;
      const int64_t index[] = {column - offset, column};
      SPARSEAGG_RETURN_IF_ERROR(Append(index, i));
      tensor_.values.insert(tensor_.values.end(), value, value + SizeOf(type));
    }
    return absl::OkStatus();
  }

  bool IsZero(const std::byte* bytes) const {
    return WithValueType(tensor_.layout.value_type, [&](auto tag) {
      typename decltype(tag)::type value;
      std::memcpy(&value, bytes, sizeof(value));
      return ToWide(value) == 0;
    });
  }

  const ZipReader& zip_;
  TensorBudget& budget_;
  std::vector<int64_t> shape_;
  NpyArray data_;  // type and shape
  std::vector<std::byte> values_;
  Tensor tensor_;
};

}  // namespace

absl::StatusOr<bool> IsScipy(const ZipReader& zip) {
  const std::optional<size_t> format = FindArray(zip, "format");
  if (!format.has_value() || !HasMember(zip, "shape") || !HasMember(zip, "data")) return false;
  // A model may have a parameter with this name.
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string head, zip.ReadHead(*format, kNpyHeadBytesMax));
  const std::optional<NpyArray> array = ParseNpyHead(head, zip.members()[*format].bytes);
  return !array.has_value() || array->kind == 'S' || array->kind == 'U';
}

absl::StatusOr<Tensor> ReadScipy(const ZipReader& zip, TensorBudget& budget) {
  return ScipyReader(zip, budget).Read();
}

}  // namespace sparseagg::client
