#include "client/io/matrix_market.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"
#include "client/io/line_reader.h"
#include "client/io/output_file.h"
#include "client/io/values.h"
#include "sparse/values.h"

namespace sparseagg::client {
namespace {

struct Banner {
  bool coordinate = false;
  bool pattern = false;
  ValueType value_type = ValueType::kF64;  // unless the caller requests another
  bool symmetric = false;                  // also if skew-symmetric
  bool skew = false;
};

struct Size {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t entries = 0;  // entries in the file
};

std::optional<uint64_t> ParseCount(std::string_view text) {
  uint64_t value = 0;
  if (!ParseValue(text, ValueType::kU64, reinterpret_cast<std::byte*>(&value))) return std::nullopt;
  return value;
}

absl::Status Malformed(const LineReader& reader, const std::string& what) {
  return MalformedFile(reader.path(), reader.where(), what);
}

std::optional<ValueType> TypeOfField(std::string_view field) {
  if (field == "real" || field == "double") return ValueType::kF64;
  if (field == "integer" || field == "pattern") return ValueType::kI64;
  if (field == "unsigned-integer") return ValueType::kU64;
  return std::nullopt;
}

// Reads the first line as five words in lower case.
absl::StatusOr<std::vector<std::string>> ReadBannerWords(LineReader& reader) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view line;
  SPARSEAGG_ASSIGN_OR_RETURN(const bool any, reader.Next(line));
  if (any && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  std::string_view words[6];
  const size_t count = any ? SplitWords(line, words) : 0;
  std::vector<std::string> lower;
  for (size_t i = 0; i < count; ++i) {
    lower.push_back(absl::AsciiStrToLower(std::string(words[i])));
  }
  // Some collections write a single "%".
  if (count != 5 || (lower[0] != "%%matrixmarket" && lower[0] != "%matrixmarket")) {
    return Malformed(reader, "is not \"%%MatrixMarket matrix FORMAT FIELD SYMMETRY\"");
  }
  return lower;
}

absl::StatusOr<Banner> ReadBanner(LineReader& reader) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<std::string> words, ReadBannerWords(reader));
  Banner banner;
  banner.coordinate = words[2] == "coordinate";
  banner.pattern = words[3] == "pattern";
  banner.skew = words[4] == "skew-symmetric";
  banner.symmetric = words[4] == "symmetric" || banner.skew;
  if (words[1] != "matrix" || (!banner.coordinate && words[2] != "array")) {
    return Malformed(reader, absl::StrCat(Quoted(words[1] + " " + words[2]),
                                          " is neither matrix coordinate nor matrix array"));
  }
  const std::optional<ValueType> type = TypeOfField(words[3]);
  if (!type.has_value()) {
    return Malformed(
        reader,
        absl::StrCat("field ", Quoted(words[3]),
                     " is not real, integer, unsigned-integer or pattern",
                     words[3] == "complex" ? "; write .real and .imag to separate files" : ""));
  }
  banner.value_type = *type;
  if (!banner.symmetric && words[4] != "general") {
    return Malformed(reader, absl::StrCat("symmetry ", Quoted(words[4]),
                                          " is not general, symmetric or skew-symmetric"));
  }
  if (banner.pattern && (!banner.coordinate || banner.skew)) {
    return Malformed(reader, absl::StrCat("a pattern, which has no values, cannot be ",
                                          banner.skew ? "skew-symmetric" : "an array"));
  }
  return banner;
}

// Reads the next line that is not blank without its comment, and removes the comment; returns false
// at the end of the file.
absl::StatusOr<bool> NextContent(LineReader& reader, std::string_view& line) {
  for (;;) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool any, reader.Next(line));
    if (!any) return false;
    line = line.substr(0, line.find('%'));
    if (line.find_first_not_of(" \t") != std::string_view::npos) return true;
  }
}

absl::Status ExpectContent(LineReader& reader, const char* expected, std::string_view& line) {
  SPARSEAGG_ASSIGN_OR_RETURN(const bool any, NextContent(reader, line));
  if (any) return absl::OkStatus();
  return Malformed(reader, absl::StrCat("the file ends where ", expected, " should be"));
}

absl::Status ExpectEnd(LineReader& reader, const Size& size, const char* pieces) {
  std::string_view line;
  SPARSEAGG_ASSIGN_OR_RETURN(const bool any, NextContent(reader, line));
  if (!any) return absl::OkStatus();
  return Malformed(reader, absl::StrCat("follows the last of ", size.entries, " ", pieces));
}

// The number of values in an array file, at most 2^64 - 1.
uint64_t ArrayEntries(const Banner& banner, const Size& size) {
  UInt128 entries = static_cast<UInt128>(size.rows) * size.columns;
  if (banner.symmetric) {
    entries = banner.skew ? (entries - size.rows) / 2 : (entries + size.rows) / 2;
  }
  return entries > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(entries);
}

absl::StatusOr<Size> ReadSize(LineReader& reader, const Banner& banner) {
  std::string_view line;
  SPARSEAGG_RETURN_IF_ERROR(ExpectContent(reader, "the size line", line));
  std::string_view words[4];
  const size_t expected = banner.coordinate ? 3 : 2;
  uint64_t numbers[3] = {};
  bool good = SplitWords(line, words) == expected;
  for (size_t i = 0; good && i < expected; ++i) {
    const std::optional<uint64_t> number = ParseCount(words[i]);
    good = number.has_value();
    numbers[i] = number.value_or(0);
  }
  if (!good) {
    return Malformed(
        reader, banner.coordinate ? "is not \"rows columns entries\"" : "is not \"rows columns\"");
  }
  for (int i = 0; i < 2; ++i) {
    if (numbers[i] == 0 || numbers[i] > uint64_t{INT64_MAX}) {
      return Malformed(
          reader, absl::StrCat(i == 0 ? "rows " : "columns ", numbers[i], " is not in [1, 2^63)"));
    }
  }
  if (banner.symmetric && numbers[0] != numbers[1]) {
    return Malformed(reader, absl::StrCat("a symmetric matrix has ", numbers[0], " rows and ",
                                          numbers[1], " columns"));
  }
  Size size{numbers[0], numbers[1], numbers[2]};
  if (!banner.coordinate) size.entries = ArrayEntries(banner, size);
  // The shortest entry is "1 1\n" and the shortest value "1\n", so the file size bounds the number
  // of entries.
  const uint64_t entry_bytes = banner.coordinate ? 4 : 2;
  if (size.entries > reader.file_bytes() / entry_bytes + 1) {
    return Malformed(reader,
                     absl::StrCat(size.entries, " entries are stated, but the file has only ",
                                  reader.file_bytes(), " bytes"));
  }
  return size;
}

// The text of a number with the other sign.
std::string Negated(std::string_view text) {
  if (text.starts_with('-')) return std::string(text.substr(1));
  if (text.starts_with('+')) text.remove_prefix(1);
  return absl::StrCat("-", std::string(text));
}

absl::Status BadValue(const LineReader& reader, std::string_view text, ValueType type) {
  std::byte ignored[sizeof(uint64_t)];
  const bool fits_unsigned = type == ValueType::kI64 && ParseValue(text, ValueType::kU64, ignored);
  return Malformed(
      reader,
      absl::StrCat("value ", Quoted(text), " is not a finite ", std::string(ValueTypeName(type)),
                   fits_unsigned ? ", but one of u64: unsigned-integer in line 1, or "
                                   "--dtype u64, reads it"
                                 : ""));
}

class EntryReader {
 public:
  EntryReader(LineReader& reader, const Banner& banner, const Size& size, Tensor& out)
      : reader_(reader), banner_(banner), size_(size), out_(out) {}

  absl::Status ReadAll() {
    const size_t value_bytes = SizeOf(out_.layout.value_type);
    const uint64_t nnz_max = size_.entries * (banner_.symmetric ? 2 : 1);
    out_.indices.reserve(nnz_max);
    out_.values.reserve(nnz_max * value_bytes);
    for (uint64_t i = 0; i < size_.entries; ++i) {
      SPARSEAGG_RETURN_IF_ERROR(ReadEntry());
    }
    return ExpectEnd(reader_, size_, "entries");
  }

 private:
  absl::Status ReadEntry() {
    std::string_view line;
    SPARSEAGG_RETURN_IF_ERROR(ExpectContent(reader_, "an entry", line));
    std::string_view words[4];
    if (SplitWords(line, words) != (banner_.pattern ? 2u : 3u)) {
      return Malformed(reader_,
                       banner_.pattern ? "is not \"row column\"" : "is not \"row column value\"");
    }
    SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t row, ParsePosition(words[0], "row", size_.rows));
    SPARSEAGG_ASSIGN_OR_RETURN(const uint64_t column,
                               ParsePosition(words[1], "column", size_.columns));
    if (banner_.symmetric) SPARSEAGG_RETURN_IF_ERROR(CheckTriangle(row, column));
    const std::string_view value = banner_.pattern ? "1" : words[2];
    SPARSEAGG_RETURN_IF_ERROR(Append(row, column, value));
    if (!banner_.symmetric) return absl::OkStatus();
    if (row == column) return banner_.skew ? CheckZero(row) : absl::OkStatus();
    return Append(column, row, banner_.skew ? Negated(value) : value);
  }

  absl::StatusOr<uint64_t> ParsePosition(std::string_view text, const char* what, uint64_t limit) {
    const std::optional<uint64_t> position = ParseCount(text);
    if (!position.has_value() || *position == 0 || *position > limit) {
      return Malformed(reader_,
                       absl::StrCat(what, " ", Excerpt(text), " is not in [1, ", limit, "]"));
    }
    return *position - 1;
  }

  // A file with entries in both triangles is refused, because their mirror images would be added to
  // each other.
  absl::Status CheckTriangle(uint64_t row, uint64_t column) {
    if (row == column) return absl::OkStatus();
    const Triangle triangle = row > column ? Triangle::kLower : Triangle::kUpper;
    if (triangle_ == Triangle::kUnknown) triangle_ = triangle;
    if (triangle == triangle_) return absl::OkStatus();
    const bool above = triangle == Triangle::kUpper;
    return Malformed(
        reader_,
        absl::StrCat("row ", row + 1, " column ", column + 1, " is ", above ? "above" : "below",
                     " the diagonal, but earlier entries are ", above ? "below" : "above",
                     "; a symmetric file lists one triangle; write the whole matrix as general"));
  }

  // Checks the last entry read, which is on the diagonal of a skew-symmetric matrix.
  absl::Status CheckZero(uint64_t row) {
    const bool zero = WithValueType(out_.layout.value_type, [&](auto tag) {
      typename decltype(tag)::type value;
      std::memcpy(&value, out_.values.data() + out_.values.size() - sizeof(value), sizeof(value));
      return ToWide(value) == 0;
    });
    if (zero) return absl::OkStatus();
    return Malformed(
        reader_,
        absl::StrCat("row ", row + 1, " column ", row + 1,
                     " is on the diagonal and not 0, which a skew-symmetric matrix requires"));
  }

  absl::Status Append(uint64_t row, uint64_t column, std::string_view value) {
    const ValueType type = out_.layout.value_type;
    const size_t end = out_.values.size();
    out_.values.resize(end + SizeOf(type));
    if (!ParseValue(value, type, out_.values.data() + end)) return BadValue(reader_, value, type);
    out_.indices.push_back(row * size_.columns + column);
    return absl::OkStatus();
  }

  LineReader& reader_;
  const Banner& banner_;
  const Size& size_;
  Tensor& out_;
  enum class Triangle : uint8_t { kUnknown, kLower, kUpper };
  Triangle triangle_ = Triangle::kUnknown;
};

// Reads an array, which is column by column in the file, for a symmetric matrix from the diagonal
// on, and row by row in memory.
class ArrayReader {
 public:
  ArrayReader(LineReader& reader, const Banner& banner, const Size& size, Tensor& out)
      : reader_(reader), banner_(banner), size_(size), out_(out) {}

  absl::Status ReadAll() {
    out_.indices = {0};
    out_.values.resize(size_.rows * size_.columns * SizeOf(out_.layout.value_type));
    for (uint64_t column = 0; column < size_.columns; ++column) {
      const uint64_t first = !banner_.symmetric ? 0 : banner_.skew ? column + 1 : column;
      for (uint64_t row = first; row < size_.rows; ++row) {
        SPARSEAGG_RETURN_IF_ERROR(ReadValue(row, column));
      }
    }
    return ExpectEnd(reader_, size_, "values");
  }

 private:
  absl::Status ReadValue(uint64_t row, uint64_t column) {
    std::string_view line;
    SPARSEAGG_RETURN_IF_ERROR(ExpectContent(reader_, "a value", line));
    std::string_view words[2];
    if (SplitWords(line, words) != 1) {
      return Malformed(
          reader_,
          absl::StrCat(Quoted(line),
                       " is not one value; an array has one value per line, column by column"));
    }
    SPARSEAGG_RETURN_IF_ERROR(Put(row, column, words[0]));
    if (!banner_.symmetric || row == column) return absl::OkStatus();
    return banner_.skew ? Put(column, row, Negated(words[0])) : Put(column, row, words[0]);
  }

  absl::Status Put(uint64_t row, uint64_t column, std::string_view text) {
    const ValueType type = out_.layout.value_type;
    const uint64_t position = row * size_.columns + column;
    if (ParseValue(text, type, out_.values.data() + position * SizeOf(type))) {
      return absl::OkStatus();
    }
    return BadValue(reader_, text, type);
  }

  LineReader& reader_;
  const Banner& banner_;
  const Size& size_;
  Tensor& out_;
};

absl::Status WriteEntries(const TensorView& tensor, OutputFile& file) {
  const ValueType type = tensor.entries.layout.value_type;
  const auto* values = static_cast<const std::byte*>(tensor.entries.values);
  std::string text;
  for (uint64_t i = 0; i < tensor.entries.nnz; ++i) {
    int64_t index[2];
    UnflattenIndex(tensor.entries.rows.wide()[i], tensor.dense_shape, index);
    absl::StrAppend(&text, index[0] + 1, " ", index[1] + 1, " ");
    AppendValue(type, values + i * SizeOf(type), text);
    text.push_back('\n');
    if (text.size() >= size_t{1} << 20) {
      SPARSEAGG_RETURN_IF_ERROR(file.Write(text));
      text.clear();
    }
  }
  return file.Write(text);
}

absl::Status WriteArray(const TensorView& tensor, OutputFile& file) {
  const ValueType type = tensor.entries.layout.value_type;
  const auto* values = static_cast<const std::byte*>(tensor.entries.values);
  const auto rows = static_cast<uint64_t>(tensor.dense_shape[0]);
  const auto columns = static_cast<uint64_t>(tensor.dense_shape[1]);
  const std::vector<std::byte> zero(SizeOf(type));
  std::string text;
  for (uint64_t i = 0; i < rows * columns; ++i) {
    const uint64_t position = i % rows * columns + i / rows;
    AppendValue(type, tensor.entries.nnz == 0 ? zero.data() : values + position * SizeOf(type),
                text);
    text.push_back('\n');
    if (text.size() >= size_t{1} << 20) {
      SPARSEAGG_RETURN_IF_ERROR(file.Write(text));
      text.clear();
    }
  }
  return file.Write(text);
}

}  // namespace

absl::StatusOr<Tensor> ReadMatrixMarket(const std::string& path, const ReadOptions& options) {
  SPARSEAGG_ASSIGN_OR_RETURN(LineReader reader, LineReader::Open(path, options.bytes_max));
  SPARSEAGG_ASSIGN_OR_RETURN(const Banner banner, ReadBanner(reader));
  SPARSEAGG_ASSIGN_OR_RETURN(const Size size, ReadSize(reader, banner));
  TensorSpec spec;
  spec.name = "matrix";  // for MakeLayout(); the file has no name to give
  spec.value_type = options.value_type.value_or(banner.value_type);
  spec.dense_shape = {static_cast<int64_t>(size.rows), static_cast<int64_t>(size.columns)};
  spec.sparse_dim = banner.coordinate ? 2 : 0;
  absl::StatusOr<Tensor> tensor = MakeEmptyTensor(spec);
  if (!tensor.ok()) return Malformed(reader, std::string(tensor.status().message()));
  tensor->name.clear();
  const uint64_t bytes = banner.coordinate ? size.entries * (banner.symmetric ? 2 : 1) *
                                                 (SizeOf(spec.value_type) + sizeof(uint64_t))

                                           : size.rows * size.columns * SizeOf(spec.value_type);
  if (bytes > options.bytes_max) {
    return FileTooLarge(path, reader.where(),
                        absl::StrCat(size.entries, " entries take ", bytes,
                                     " bytes, more than the limit of ", options.bytes_max));
  }
  if (banner.coordinate) {
    SPARSEAGG_RETURN_IF_ERROR(EntryReader(reader, banner, size, *tensor).ReadAll());
  } else {
    SPARSEAGG_RETURN_IF_ERROR(ArrayReader(reader, banner, size, *tensor).ReadAll());
  }
  return tensor;
}

absl::Status CheckMatrixMarket(const std::string& path, const TensorView& tensor) {
  const bool matrix = tensor.dense_shape.size() == 2 && tensor.sparse_dim != 1;
  if (matrix) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "UNSUITABLE_FORMAT",
                   absl::StrCat(path, ": tensor \"", tensor.name, "\" has ",
                                tensor.dense_shape.size(), " dimensions, ", tensor.sparse_dim,
                                " of them indexed; .mtx holds matrices only, use .npz"));
}

absl::Status WriteMatrixMarket(const std::string& path, const TensorView& tensor) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  const char* field = IsFloating(tensor.entries.layout.value_type) ? "real" : "integer";
  const bool sparse = tensor.sparse_dim == 2;
  std::string head =
      absl::StrCat("%%MatrixMarket matrix ", sparse ? "coordinate " : "array ", field, " general\n",
                   tensor.dense_shape[0], " ", tensor.dense_shape[1]);
  if (sparse) absl::StrAppend(&head, " ", tensor.entries.nnz);
  SPARSEAGG_RETURN_IF_ERROR(file->Write(head + "\n"));
  SPARSEAGG_RETURN_IF_ERROR(sparse ? WriteEntries(tensor, *file) : WriteArray(tensor, *file));
  return file->Commit();
}

}  // namespace sparseagg::client
