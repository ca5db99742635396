#include "client/io/tensor_file.h"

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"
#include "client/io/line_reader.h"
#include "client/io/matrix_market.h"
#include "client/io/npz.h"
#include "client/io/zip_archive.h"

namespace sparseagg::client {
namespace {

enum class Format { kMatrixMarket, kNpz };

std::string LowerCase(const std::string& path) { return absl::AsciiStrToLower(path); }

absl::StatusOr<Format> FormatOf(const std::string& path) {
  const std::string lower = LowerCase(path);
  if (lower.ends_with(".mtx") || lower.ends_with(".mtx.gz")) return Format::kMatrixMarket;
  if (lower.ends_with(".npz")) return Format::kNpz;
  return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_FORMAT",
                   absl::StrCat(path, ": the name must end with .npz, .mtx or .mtx.gz"));
}

constexpr uint64_t kUint64Max = std::numeric_limits<uint64_t>::max();

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a > kUint64Max - b ? kUint64Max : a + b; }
uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  return a > kUint64Max / b ? kUint64Max : a * b;
}

absl::Status CheckNames(const std::string& path, std::span<const TensorView> tensors) {
  std::set<std::string> names;
  for (const TensorView& tensor : tensors) {
    if (tensors.size() > 1 && (tensor.name.empty() || !names.insert(tensor.name).second)) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, "BAD_TENSOR_NAME",
          absl::StrCat(path, ": tensor name \"", tensor.name, "\" is empty or appears twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& path,
                                                const ReadOptions& options) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Format format, FormatOf(path));
  if (format == Format::kNpz) return ReadNpz(path, options);
  SPARSEAGG_ASSIGN_OR_RETURN(Tensor tensor, ReadMatrixMarket(path, options));
  std::vector<Tensor> tensors;
  tensors.push_back(std::move(tensor));
  return tensors;
}

absl::StatusOr<uint64_t> TensorBytesMax(const std::string& path) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Format format, FormatOf(path));
  if (format == Format::kMatrixMarket) {
    // "1 1\n" may be two entries (symmetric), each with an index and a value of 8 bytes, and "1\n"
    // two values of a symmetric array, to which the diagonal is added.
    SPARSEAGG_ASSIGN_OR_RETURN(const LineReader reader, LineReader::Open(path));
    return SaturatingMultiply(reader.file_bytes(), 9);
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const ZipReader zip, ZipReader::Open(path));
  uint64_t bytes = 0;
  for (size_t i = 0; i < zip.members().size(); ++i) {
    // Any array may be values, each of which becomes at most 8 bytes, with an index of 8 bytes.
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string head, zip.ReadHead(i, kNpyHeadBytesMax));
    const uint64_t file_bytes = zip.members()[i].bytes;
    const std::optional<NpyArray> array = ParseNpyHead(head, file_bytes);
    const uint64_t elements =
        array.has_value() ? (file_bytes - array->data_begin) / array->item_bytes : file_bytes;
    bytes = SaturatingAdd(bytes, SaturatingMultiply(elements, 16));
  }
  return bytes;
}

absl::Status CheckOutputPath(const std::string& path) {
  if (LowerCase(path).ends_with(".gz")) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_FORMAT",
                     absl::StrCat(path, ": .gz can be read but not written; use .mtx"));
  }
  return FormatOf(path).status();
}

bool IsMatrixMarketPath(const std::string& path) {
  const absl::StatusOr<Format> format = FormatOf(path);
  return format.ok() && *format == Format::kMatrixMarket;
}

absl::Status WriteTensors(const std::string& path, std::span<const TensorView> tensors) {
  SPARSEAGG_RETURN_IF_ERROR(CheckOutputPath(path));
  SPARSEAGG_ASSIGN_OR_RETURN(const Format format, FormatOf(path));
  SPARSEAGG_RETURN_IF_ERROR(CheckNames(path, tensors));
  if (format == Format::kNpz) return WriteNpz(path, tensors);
  if (tensors.size() != 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNSUITABLE_FORMAT",
                     absl::StrCat(path, ": .mtx holds one matrix, but there are ", tensors.size(),
                                  " tensors; use .npz"));
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckMatrixMarket(path, tensors[0]));
  return WriteMatrixMarket(path, tensors[0]);
}

}  // namespace sparseagg::client
