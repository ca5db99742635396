#include "sparse/encode.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/encodings/coo_raw.h"
#include "sparse/encodings/value_coding.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

constexpr char kAuto[] = "auto";

// A copy of the entries in ascending order of rows. Entries of one row keep their order.
struct SortedEntries {
  std::vector<uint64_t> rows;
  std::vector<std::byte> values;

  explicit SortedEntries(const CooView& entries)
      : rows(entries.nnz), values(entries.nnz * entries.layout.row_bytes()) {
    std::vector<uint64_t> order(entries.nnz);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
      return entries.rows.wide()[a] < entries.rows.wide()[b];
    });
    const uint64_t row_bytes = entries.layout.row_bytes();
    const auto* from = static_cast<const std::byte*>(entries.values);
    for (uint64_t e = 0; e < entries.nnz; ++e) {
      rows[e] = entries.rows.wide()[order[e]];
      std::memcpy(&values[e * row_bytes], from + order[e] * row_bytes, row_bytes);
    }
  }
};

// Returns the smallest coding that changes no value, or the requested one if the type has it.
absl::StatusOr<ValueCoding> ChooseValueCoding(const CooView& entries, const EncodeOptions& options,
                                              EncodedHeader header) {
  const ValueType type = header.value_type;
  const uint64_t count = entries.nnz * entries.layout.row_width;
  if (options.values == kAuto) return SmallestExactCoding(type, entries.values, count);
  const bool is_name =
      std::any_of(AllValueCodings().begin(), AllValueCodings().end(),
                  [&](const ValueCoding& coding) { return coding.name == options.values; });
  const bool wide = type == ValueType::kF32 || type == ValueType::kF64;
  const bool is_own = options.values == ValueTypeName(type);
  header.values_encoding = is_name && (!wide || is_own) ? "" : options.values;
  return FindValueCoding(header);
}

// Checks that all rows are within the shape: the receiver would refuse others, and coo.packed
// cannot represent them.
absl::Status CheckRows(const CooView& entries, const EncodedHeader& header) {
  if (entries.nnz == 0) return absl::OkStatus();
  const uint64_t* largest =
      std::max_element(entries.rows.wide(), entries.rows.wide() + entries.nnz);
  if (*largest < entries.layout.num_rows) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE",
                   absl::StrCat("tensor \"", header.name, "\": row ", *largest, " at entry ",
                                largest - entries.rows.wide(), " is not below ",
                                entries.layout.num_rows, " rows"));
}

absl::Status EncodePacked(const CooView& entries, const ValueCoding& coding, uint64_t seed,
                          EncodedHeader& header, std::string& indices, std::string& values) {
  const size_t indices_before = indices.size();
  const size_t values_before = values.size();
  header.encoding = kCooPacked.name;
  header.values_encoding = coding.form == ValueForm::kRaw ? "" : coding.name;
  header.nnz = entries.nnz;
  SPARSEAGG_RETURN_IF_ERROR(EncodeValues(header, coding, entries.values,
                                         entries.nnz * entries.layout.row_width, seed, values));
  if (header.sparse_dim > 0) AppendPackedIndices(entries.rows.wide(), entries.nnz, indices);
  header.indices_bytes = indices.size() - indices_before;
  header.values_bytes = values.size() - values_before;
  return absl::OkStatus();
}

}  // namespace

absl::Status EncodeTensor(const CooView& entries, const EncodeOptions& options,
                          EncodedHeader& header, std::string& indices, std::string& values) {
  SPARSEAGG_RETURN_IF_ERROR(CheckRows(entries, header));
  if (options.encoding == kCooRaw.name) {
    if (options.values == kAuto || options.values == "raw") {
      return EncodeCooRaw(entries, header, indices, values);
    }
    return MakeError(
        absl::StatusCode::kInvalidArgument, "UNKNOWN_VALUES_ENCODING",
        absl::StrCat("coo.raw has no values encoding \"", options.values, "\"; take coo.packed"));
  }
  if (options.encoding != kAuto) {
    SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(options.encoding));
    if (encoding->name != kCooPacked.name)
      return encoding->encode(entries, header, indices, values);
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueCoding coding, ChooseValueCoding(entries, options, header));
  std::string packed_indices;
  std::string packed_values;
  EncodedHeader packed = header;
  if (OrderOf(entries.rows.wide(), entries.nnz) == EntryOrder::kUnsorted) {
    const SortedEntries sorted(entries);
    const CooView view{entries.layout, entries.nnz, sorted.rows.data(), sorted.values.data()};
    SPARSEAGG_RETURN_IF_ERROR(
        EncodePacked(view, coding, options.rounding_seed, packed, packed_indices, packed_values));
  } else {
    SPARSEAGG_RETURN_IF_ERROR(EncodePacked(entries, coding, options.rounding_seed, packed,
                                           packed_indices, packed_values));
  }
  const uint64_t raw_bytes =
      entries.nnz * (header.sparse_dim * SizeOf(header.index_type) + entries.layout.row_bytes());
  if (options.encoding == kAuto && raw_bytes <= packed_indices.size() + packed_values.size()) {
    return EncodeCooRaw(entries, header, indices, values);
  }
  header = std::move(packed);
  indices.append(packed_indices);
  values.append(packed_values);
  return absl::OkStatus();
}

}  // namespace sparseagg
