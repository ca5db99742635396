#include "sparse/encodings/coo_raw.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/encodings/size_error.h"
#include "sparse/encodings/unit_cutter.h"
#include "sparse/status.h"

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

// Flattens `count` indices of [sparse_dim] at `from` to rows, row-major. `first` is the position of
// the first of these entries. Without an exit inside the loops; what is wrong is looked for after.
template <class Index>
absl::Status Flatten(const EncodedHeader& header, const char* from, uint64_t first, uint64_t count,
                     uint64_t* rows) {
  const uint32_t dims = header.sparse_dim;
  const auto index_of = [from, dims](uint64_t e, uint32_t d) {
    Index index;
    std::memcpy(&index, from + (e * dims + d) * sizeof(Index), sizeof(Index));
    return static_cast<int64_t>(index);
  };
  uint64_t bad = 0;  // a negative index is a large one
  if (dims == 1) {
    const auto limit = static_cast<uint64_t>(header.dense_shape[0]);
    for (uint64_t e = 0; e < count; ++e) {
      rows[e] = static_cast<uint64_t>(index_of(e, 0));
      bad |= rows[e] >= limit ? 1 : 0;
    }
  } else {
    for (uint64_t e = 0; e < count; ++e) {
      uint64_t row = 0;
      for (uint32_t d = 0; d < dims; ++d) {
        const auto limit = static_cast<uint64_t>(header.dense_shape[d]);
        const auto index = static_cast<uint64_t>(index_of(e, d));
        bad |= index >= limit ? 1 : 0;
        row = row * limit + index;
      }
      rows[e] = row;
    }
  }
  for (uint64_t e = 0; bad != 0; ++e) {
    for (uint32_t d = 0; d < dims; ++d) {
      const int64_t index = index_of(e, d);
      if (index < 0 || index >= header.dense_shape[d]) {
        return IndexError(header, first + e, d, index);
      }
    }
  }
  return absl::OkStatus();
}

class RawDecoder : public TensorDecoder {
 public:
  RawDecoder(const EncodedHeader& header, const MutableCooView& out)
      : header_(header),
        out_(out),
        index_cutter_(std::max<size_t>(header.sparse_dim, 1) * SizeOf(header.index_type)) {
    if (header.sparse_dim > 0 || header.nnz == 0) return;
    out.indices[0] = 0;
    rows_ = 1;
  }

  absl::Status AppendIndices(std::string_view bytes) override {
    return index_cutter_.Feed(bytes, [this](const char* from, uint64_t count) {
      const uint64_t first = rows_;
      rows_ += count;
      return header_.index_type == IndexType::kI32
                 ? Flatten<int32_t>(header_, from, first, count, out_.indices + first)
                 : Flatten<int64_t>(header_, from, first, count, out_.indices + first);
    });
  }
  absl::Status AppendValues(std::string_view bytes) override {
    if (!bytes.empty()) {
      std::memcpy(static_cast<char*>(out_.values) + value_bytes_, bytes.data(), bytes.size());
    }
    value_bytes_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t rows() const override { return rows_; }
  uint64_t values() const override { return value_bytes_ / SizeOf(header_.value_type); }

 private:
  const EncodedHeader& header_;
  const MutableCooView out_;
  UnitCutter index_cutter_;
  uint64_t rows_ = 0;
  uint64_t value_bytes_ = 0;
};

// rows -> [nnz, sparse_dim] indices.
template <class Index>
void AppendIndices(const CooView& entries, const EncodedHeader& header, std::string& out) {
  const uint32_t dims = header.sparse_dim;
  std::vector<Index> index(dims);
  for (uint64_t e = 0; e < entries.nnz; ++e) {
    uint64_t row = entries.indices[e];
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
                                  header.values_encoding, "\"; coo.packed may have"));
  }
  // 128 bits hold every product here: nnz is below 2^64, the factors below 2^35.
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
  for (const std::string_view piece : values) {
    SPARSEAGG_RETURN_IF_ERROR(decoder.AppendValues(piece));
  }
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
