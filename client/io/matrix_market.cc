#include "client/io/matrix_market.h"

#include <algorithm>
#include <charconv>
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

namespace sparseagg::client {
namespace {

struct Banner {
  bool coordinate = false;
  bool pattern = false;
  bool integer = false;
  bool symmetric = false;
  bool skew = false;
};

struct Size {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t entries = 0;
};

std::optional<uint64_t> ParseCount(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

absl::Status Malformed(const LineReader& reader, const std::string& what) {
  return MalformedFile(reader.path(), reader.where(), what);
}

absl::StatusOr<Banner> ReadBanner(LineReader& reader) {
  std::string_view line;
  SPARSEAGG_ASSIGN_OR_RETURN(const bool any, reader.Next(line));
  std::string_view words[6];
  if (!any || SplitWords(line, words) != 5 || words[0] != "%%MatrixMarket") {
    return Malformed(reader, "is not \"%%MatrixMarket matrix FORMAT FIELD SYMMETRY\"");
  }
  std::string lower[5];
  for (int i = 1; i < 5; ++i) {
    lower[i] = std::string(words[i]);
    absl::AsciiStrToLower(&lower[i]);
  }
  Banner banner;
  banner.coordinate = lower[2] == "coordinate";
  banner.pattern = lower[3] == "pattern";
  banner.integer = lower[3] == "integer" || banner.pattern;
  banner.skew = lower[4] == "skew-symmetric";
  banner.symmetric = lower[4] == "symmetric" || banner.skew;
  if (lower[1] != "matrix" || (!banner.coordinate && lower[2] != "array")) {
    return Malformed(reader, absl::StrCat("\"", lower[1], " ", lower[2],
                                          "\" is neither matrix coordinate nor matrix array"));
  }
  if (!banner.integer && lower[3] != "real" && lower[3] != "double") {
    return Malformed(reader,
                     absl::StrCat("field \"", lower[3], "\" is not real, integer or pattern"));
  }
  if (!banner.symmetric && lower[4] != "general") {
    return Malformed(reader, absl::StrCat("symmetry \"", lower[4],
                                          "\" is not general, symmetric or skew-symmetric"));
  }
  if (!banner.coordinate && (banner.pattern || banner.symmetric)) {
    return Malformed(reader, "an array file that is not general real or integer is not supported");
  }
  return banner;
}

// Reads the next line that is neither blank nor a comment; false at the end of the file.
absl::StatusOr<bool> NextContent(LineReader& reader, std::string_view& line) {
  for (;;) {
    SPARSEAGG_ASSIGN_OR_RETURN(const bool any, reader.Next(line));
    if (!any) return false;
    const size_t start = line.find_first_not_of(" \t\r");
    if (start != std::string_view::npos && line[start] != '%') return true;
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
  if (!banner.coordinate) {
    size.entries = size.rows > UINT64_MAX / size.columns ? UINT64_MAX : size.rows * size.columns;
  }
  // The shortest entry is "1 1\n", the shortest value "1\n": what is stated must fit into the file.
  const uint64_t entry_bytes = banner.coordinate ? 4 : 2;
  if (size.entries > reader.file_bytes() / entry_bytes + 1) {
    return Malformed(reader,
                     absl::StrCat(size.entries, " entries are stated, but the file has only ",
                                  reader.file_bytes(), " bytes"));
  }
  return size;
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
    SPARSEAGG_RETURN_IF_ERROR(Append(row, column, banner_.pattern ? "1" : words[2]));
    if (!banner_.symmetric || row == column) return absl::OkStatus();
    if (!banner_.skew) return Append(column, row, banner_.pattern ? "1" : words[2]);
    return Append(column, row, Negated(words[2]));
  }

  absl::StatusOr<uint64_t> ParsePosition(std::string_view text, const char* what, uint64_t limit) {
    const std::optional<uint64_t> position = ParseCount(text);
    if (!position.has_value() || *position == 0 || *position > limit) {
      return Malformed(reader_,
                       absl::StrCat(what, " ", std::string(text), " is not in [1, ", limit, "]"));
    }
    return *position - 1;
  }

  // An entry above the diagonal most often comes with its mirror image, and would count twice.
  absl::Status CheckTriangle(uint64_t row, uint64_t column) {
    if (row > column || (row == column && !banner_.skew)) return absl::OkStatus();
    return Malformed(
        reader_, absl::StrCat("row ", row + 1, " column ", column + 1, " is not below the diagonal",
                              banner_.skew ? ", as all of a skew-symmetric file is"
                                           : " or on it, as all of a symmetric file is"));
  }

  std::string_view Negated(std::string_view text) {
    if (text.starts_with('-')) return text.substr(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    negated_ = absl::StrCat("-", std::string(text));
    return negated_;
  }

  absl::Status Append(uint64_t row, uint64_t column, std::string_view value) {
    const ValueType type = out_.layout.value_type;
    const size_t end = out_.values.size();
    out_.values.resize(end + SizeOf(type));
    if (!ParseValue(value, type, out_.values.data() + end)) {
      return Malformed(reader_, absl::StrCat("value \"", std::string(value), "\" is not a finite ",
                                             std::string(ValueTypeName(type))));
    }
    out_.indices.push_back(row * size_.columns + column);
    return absl::OkStatus();
  }

  LineReader& reader_;
  const Banner& banner_;
  const Size& size_;
  Tensor& out_;
  std::string negated_;
};

// Column by column in the file, row by row in memory.
absl::Status ReadArray(LineReader& reader, const Size& size, Tensor& out) {
  const ValueType type = out.layout.value_type;
  out.indices = {0};
  out.values.resize(size.entries * SizeOf(type));
  for (uint64_t i = 0; i < size.entries; ++i) {
    std::string_view line;
    SPARSEAGG_RETURN_IF_ERROR(ExpectContent(reader, "a value", line));
    std::string_view words[2];
    const uint64_t position = i % size.rows * size.columns + i / size.rows;
    if (SplitWords(line, words) != 1 ||
        !ParseValue(words[0], type, out.values.data() + position * SizeOf(type))) {
      return Malformed(reader, absl::StrCat("\"", std::string(line), "\" is not a finite ",
                                            std::string(ValueTypeName(type))));
    }
  }
  return ExpectEnd(reader, size, "values");
}

absl::Status WriteEntries(const TensorView& tensor, OutputFile& file) {
  const ValueType type = tensor.entries.layout.value_type;
  const auto* values = static_cast<const std::byte*>(tensor.entries.values);
  std::string text;
  for (uint64_t i = 0; i < tensor.entries.nnz; ++i) {
    int64_t index[2];
    UnflattenIndex(tensor.entries.indices[i], tensor.dense_shape, index);
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
  SPARSEAGG_ASSIGN_OR_RETURN(LineReader reader, LineReader::Open(path));
  SPARSEAGG_ASSIGN_OR_RETURN(const Banner banner, ReadBanner(reader));
  SPARSEAGG_ASSIGN_OR_RETURN(const Size size, ReadSize(reader, banner));
  TensorSpec spec;
  spec.name = "matrix";  // for MakeLayout(); the file has no name to give
  spec.value_type = options.value_type.value_or(banner.integer ? ValueType::kI64 : ValueType::kF64);
  spec.dense_shape = {static_cast<int64_t>(size.rows), static_cast<int64_t>(size.columns)};
  spec.sparse_dim = banner.coordinate ? 2 : 0;
  absl::StatusOr<Tensor> tensor = MakeEmptyTensor(spec);
  if (!tensor.ok()) return Malformed(reader, std::string(tensor.status().message()));
  tensor->name.clear();
  const uint64_t bytes = size.entries * (banner.symmetric ? 2 : 1) *
                         (SizeOf(spec.value_type) + (banner.coordinate ? sizeof(uint64_t) : 0));
  if (bytes > options.bytes_max) {
    return FileTooLarge(path, reader.where(),
                        absl::StrCat(size.entries, " entries take ", bytes,
                                     " bytes, more than the limit of ", options.bytes_max));
  }
  if (banner.coordinate) {
    SPARSEAGG_RETURN_IF_ERROR(EntryReader(reader, banner, size, *tensor).ReadAll());
  } else {
    SPARSEAGG_RETURN_IF_ERROR(ReadArray(reader, size, *tensor));
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
