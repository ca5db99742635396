#include "sparse/encodings/coo_raw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/encodings/chain_reader.h"
#include "sparse/encodings/size_error.h"
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

// Flattens [count, sparse_dim] indices to rows, row-major. `first` is the position of the first
// entry.
template <class Index>
absl::Status Flatten(const EncodedHeader& header, const Index* from, uint64_t first, uint64_t count,
                     uint64_t* rows) {
  const uint32_t dims = header.sparse_dim;
  for (uint64_t e = 0; e < count; ++e) {
    uint64_t row = 0;
    for (uint32_t d = 0; d < dims; ++d) {
      const int64_t index = from[e * dims + d];
      if (index < 0 || index >= header.dense_shape[d]) {
        return IndexError(header, first + e, d, index);
      }
      row = row * static_cast<uint64_t>(header.dense_shape[d]) + static_cast<uint64_t>(index);
    }
    rows[e] = row;
  }
  return absl::OkStatus();
}

// Through a buffer of a fixed size, so that decoding takes no memory that was not admitted.
template <class Index>
absl::Status FlattenChain(const EncodedHeader& header, ByteChain indices, uint64_t* rows) {
  constexpr uint64_t kBlockEntries = 512;
  ChainReader reader(indices);
  std::array<Index, kBlockEntries * kRankMax> block;
  for (uint64_t first = 0; first < header.nnz; first += kBlockEntries) {
    const uint64_t count = std::min(kBlockEntries, header.nnz - first);
    reader.Read(block.data(), count * header.sparse_dim * sizeof(Index));
    SPARSEAGG_RETURN_IF_ERROR(Flatten(header, block.data(), first, count, rows + first));
  }
  return absl::OkStatus();
}

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
  ChainReader(values).Read(out.values, header.values_bytes);
  if (header.sparse_dim == 0) {
    if (header.nnz == 1) out.indices[0] = 0;
    return absl::OkStatus();
  }
  if (header.index_type == IndexType::kI32) {
    return FlattenChain<int32_t>(header, indices, out.indices);
  }
  return FlattenChain<int64_t>(header, indices, out.indices);
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
