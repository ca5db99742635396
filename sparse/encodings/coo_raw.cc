#include "sparse/encodings/coo_raw.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/encodings/chain_reader.h"
#include "sparse/encodings/raw_values.h"
#include "sparse/encodings/size_error.h"
#include "sparse/encodings/unit_cutter.h"
#include "sparse/rows/narrow_rows.h"
#include "sparse/rows/row_flags.h"
#include "sparse/streaming.h"

namespace sparseagg {
namespace {

static_assert(std::endian::native == std::endian::little, "coo.raw is copied, not converted");

absl::Status IndexError(const EncodedHeader& header, uint64_t entry, uint32_t dim, int64_t index) {
  const int64_t limit = header.dense_shape[dim];
  const std::string where = header.sparse_dim == 1 ? "" : absl::StrCat(" of dimension ", dim);
  const std::string what = index < 0 ? "is negative" : absl::StrCat("is not below ", limit);
  return MakeError(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE",
                   absl::StrCat("tensor \"", header.name, "\": index ", index, where, " at entry ",
                                entry, " ", what));
}

// Returns the error of the first index out of range among the indices [count, sparse_dim] at
// `from`; `first` is the position of the first of them. REQUIRES: there is such an index.
template <class Index>
absl::Status FindIndexError(const EncodedHeader& header, const char* from, uint64_t first) {
  const uint32_t dims = header.sparse_dim;
  for (uint64_t i = 0;; ++i) {
    const int64_t index = IndexAt<Index>(from, i);
    const auto dim = static_cast<uint32_t>(i % dims);
    if (index < 0 || index >= header.dense_shape[dim]) {
      return IndexError(header, first + i / dims, dim, index);
    }
  }
}

// Flattens the indices [count, sparse_dim] at `from` to rows, row-major; count > 0, and `last` is
// the row before them. The loop has no early exit; errors are located afterwards.
template <class Index>
void Flatten(const EncodedHeader& header, const char* from, uint64_t count, uint64_t last,
             uint64_t* __restrict rows, RowFlags& all_flags) {
  RowFlags flags = all_flags;
  const uint32_t dims = header.sparse_dim;
  for (uint64_t e = 0; e < count; ++e) {
    uint64_t row = 0;
    for (uint32_t d = 0; d < dims; ++d) {
      const auto limit = static_cast<uint64_t>(header.dense_shape[d]);
      const auto index = static_cast<uint64_t>(IndexAt<Index>(from, e * dims + d));
      flags.out_of_range |= index | (limit - 1 - index);
      row = row * limit + index;
    }
    rows[e] = row;
    flags.CompareWithLast(row, last);
    last = row;
  }
  all_flags = flags;
}

class RawDecoder : public TensorDecoder {
 public:
  RawDecoder(const EncodedHeader& header, const MutableCooView& out)
      : header_(header),
        out_(out),
        index_cutter_(std::max<size_t>(header.sparse_dim, 1) * SizeOf(header.index_type)),
        values_(header, out.values) {
    if (header.sparse_dim > 0 || header.nnz == 0) return;
    out.rows.wide()[0] = 0;
    rows_ = 1;
  }

  absl::Status AppendIndices(std::string_view bytes) override {
    return index_cutter_.Feed(bytes, [this](const char* from, uint64_t count) {
      return header_.index_type == IndexType::kI32 ? Append<int32_t>(from, count)
                                                   : Append<int64_t>(from, count);
    });
  }
  absl::Status AppendValues(std::string_view bytes) override { return values_.Append(bytes); }
  EntryOrder order() const override {
    return rows_ == header_.nnz ? flags_.order() : EntryOrder::kUnknown;
  }
  uint64_t values() const override { return values_.values(); }
  uint64_t finite_values() const override { return values_.finite_values(); }

 private:
  template <class Index>
  absl::Status Append(const char* from, uint64_t count) {
    if (NarrowRows* const narrow = out_.rows.narrow(); narrow != nullptr) {
      if (narrow->Append<Index>(from, count, last_, flags_)) {
        last_ = static_cast<uint64_t>(IndexAt<Index>(from, count - 1));
        rows_ += count;
        return absl::OkStatus();
      }
      SPARSEAGG_RETURN_IF_ERROR(Widen());
    }
    uint64_t* const rows = out_.rows.wide() + rows_;
    if (header_.sparse_dim == 1) {
      const auto highest = static_cast<uint64_t>(header_.dense_shape[0]) - 1;
      const bool streams = header_.indices_bytes >= kStreamBytesMin;
      (streams ? StreamRows<Index, uint64_t> : CopyRows<Index, uint64_t>)(from, count, highest,
                                                                          last_, rows, flags_);
      last_ = static_cast<uint64_t>(IndexAt<Index>(from, count - 1));
    } else {
      Flatten<Index>(header_, from, count, last_, rows, flags_);
      last_ = rows[count - 1];
    }
    if (!flags_.all_in_range()) return FindIndexError<Index>(header_, from, rows_);
    rows_ += count;
    return absl::OkStatus();
  }

  // The next rows are in no order, or out of range. The rest is decoded as u64, which also locates
  // an error.
  absl::Status Widen() {
    if (!out_.rows.narrow()->Widen()) {
      return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                       absl::StrCat("tensor \"", header_.name, "\": no memory for the rows of ",
                                    header_.nnz, " entries"));
    }
    UseWideRows(out_);
    return absl::OkStatus();
  }

  const EncodedHeader& header_;
  MutableCooView out_;
  UnitCutter index_cutter_;
  RowFlags flags_;
  uint64_t rows_ = 0;
  uint64_t last_ = std::numeric_limits<uint64_t>::max();  // last row; any row follows this one
  RawValues values_;
};

// Appends the rows as indices [nnz, sparse_dim].
template <class Index>
void AppendIndices(const CooView& entries, const EncodedHeader& header, std::string& out) {
  const uint32_t dims = header.sparse_dim;
  std::vector<Index> index(dims);
  for (uint64_t e = 0; e < entries.nnz; ++e) {
    uint64_t row = entries.rows.wide()[e];
    for (uint32_t d = dims; d-- > 0;) {
      const auto dim = static_cast<uint64_t>(header.dense_shape[d]);
      index[d] = static_cast<Index>(row % dim);
      row /= dim;
    }
    out.append(reinterpret_cast<const char*>(index.data()), dims * sizeof(Index));
  }
}

}  // namespace

absl::Status InspectCooRaw(const EncodedHeader& header, const TensorSpec& spec) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(spec));
  SPARSEAGG_RETURN_IF_ERROR(CheckDenseNnz(header));
  if (!header.values_encoding.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_VALUES_ENCODING",
                     absl::StrCat("tensor \"", header.name, "\": coo.raw has no values encoding \"",
                                  header.values_encoding, "\"; use coo.packed"));
  }
  // 128 bits hold every product here: nnz is below 2^64, and the other factors are below 2^35.
  using Wide = unsigned __int128;
  const Wide indices = Wide{header.nnz} * header.sparse_dim * SizeOf(header.index_type);
  const Wide values = Wide{header.nnz} * layout.row_bytes();
  if (indices != header.indices_bytes)
    return SizeError(header, "indices", BytesText(indices), header.indices_bytes);
  if (values != header.values_bytes)
    return SizeError(header, "values", BytesText(values), header.values_bytes);
  return absl::OkStatus();
}

absl::Status DecodeCooRaw(const EncodedHeader& header, const TensorSpec&, ByteChain indices,
                          ByteChain values, const MutableCooView& out) {
  RawDecoder decoder(header, out);
  for (const std::string_view piece : indices) {
    SPARSEAGG_RETURN_IF_ERROR(decoder.AppendIndices(piece));
  }
  // These are ordinary stores: a caller that decodes everything in one call reads the values next.
  ChainReader(values).Read(out.values, header.values_bytes);
  return absl::OkStatus();
}

std::unique_ptr<TensorDecoder> CooRawDecoder(const EncodedHeader& header, const TensorSpec&,
                                             const MutableCooView& out) {
  return std::make_unique<RawDecoder>(header, out);
}

absl::Status EncodeCooRaw(const CooView& entries, EncodedHeader& header, std::string& indices,
                          std::string& values) {
  const size_t indices_before = indices.size();
  const size_t values_before = values.size();
  header.encoding = "coo.raw";
  header.values_encoding.clear();
  header.nnz = entries.nnz;
  if (header.index_type == IndexType::kI32) {
    for (uint32_t d = 0; d < header.sparse_dim; ++d) {
      if (header.dense_shape[d] > int64_t{1} << 31) {
        return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                         absl::StrCat("tensor \"", header.name, "\": dimension ", d, " of ",
                                      header.dense_shape[d], " does not fit in i32 indices"));
      }
    }
    AppendIndices<int32_t>(entries, header, indices);
  } else {
    AppendIndices<int64_t>(entries, header, indices);
  }
  values.append(static_cast<const char*>(entries.values), entries.nnz * entries.layout.row_bytes());
  header.indices_bytes = indices.size() - indices_before;
  header.values_bytes = values.size() - values_before;
  return absl::OkStatus();
}

}  // namespace sparseagg
