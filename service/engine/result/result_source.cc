#include "service/engine/result/result_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "sparse/rows/packed_indices.h"

namespace sparseagg {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays on the wire are little-endian");

// Calls copy(row, first byte in the row, byte count, out) for the parts of rows of `row_bytes` that
// [offset, offset+n) covers. A read may start and end inside a row.
template <typename Copy>
void ForEachRowPart(uint64_t offset, size_t n, uint64_t row_bytes, char* out, Copy copy) {
  uint64_t row = offset / row_bytes;
  uint64_t skip = offset % row_bytes;
  while (n > 0) {
    const size_t part = static_cast<size_t>(std::min<uint64_t>(n, row_bytes - skip));
    copy(row, static_cast<size_t>(skip), part, out);
    out += part;
    n -= part;
    skip = 0;
    ++row;
  }
}

class Memory : public ByteSource {
 public:
  Memory(const void* data, uint64_t bytes) : data_(static_cast<const char*>(data)), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  void Read(uint64_t offset, size_t n, char* out) const override {
    if (n > 0) std::memcpy(out, data_ + offset, n);
  }
  const char* InMemory() const override { return data_; }

 private:
  const char* data_;
  uint64_t bytes_;
};

class Indices : public ByteSource {
 public:
  // `positions` may be null: all entries.
  Indices(const SparseTensor& tensor, std::vector<int64_t> dims,
          std::unique_ptr<std::vector<uint64_t>> positions)
      : tensor_(tensor), dims_(std::move(dims)), positions_(std::move(positions)) {}

  uint64_t bytes() const override {
    return (positions_ ? positions_->size() : tensor_.indices.size()) * dims_.size() *
           sizeof(int64_t);
  }

  void Read(uint64_t offset, size_t n, char* out) const override {
    if (n == 0) return;
    const uint64_t row_bytes = dims_.size() * sizeof(int64_t);
    ForEachRowPart(offset, n, row_bytes, out,
                   [this](uint64_t entry, size_t skip, size_t part, char* to) {
                     std::array<int64_t, kRankMax> index;
                     uint64_t rest = tensor_.indices[positions_ ? (*positions_)[entry] : entry];
                     for (size_t d = dims_.size(); d-- > 1;) {
                       const auto dim = static_cast<uint64_t>(dims_[d]);
                       index[d] = static_cast<int64_t>(rest % dim);
                       rest /= dim;
                     }
                     index[0] = static_cast<int64_t>(rest);
                     std::memcpy(to, reinterpret_cast<const char*>(index.data()) + skip, part);
                   });
  }

 private:
  const SparseTensor& tensor_;
  std::vector<int64_t> dims_;
  std::unique_ptr<std::vector<uint64_t>> positions_;
};

// The numbers from 0 on: the indices of a tensor in which every row has an entry.
class Counting : public ByteSource {
 public:
  explicit Counting(uint64_t size) : size_(size) {}
  uint64_t bytes() const override { return size_ * sizeof(uint64_t); }
  void Read(uint64_t offset, size_t n, char* out) const override {
    for (uint64_t index = offset / sizeof(index), skip = offset % sizeof(index); n > 0; ++index) {
      const size_t part = std::min<size_t>(n, sizeof(index) - skip);
      if (part == sizeof(index)) {
        std::memcpy(out, &index, sizeof(index));
      } else {
        std::memcpy(out, reinterpret_cast<const char*>(&index) + skip, part);
      }
      out += part;
      n -= part;
      skip = 0;
    }
  }

 private:
  const uint64_t size_;
};

class Packed : public ByteSource {
 public:
  explicit Packed(const RowIds& rows) : indices_(rows) {}
  explicit Packed(RowIds&& rows) : rows_(std::move(rows)), indices_(rows_) {}

  bool fits() const { return indices_.fits(); }
  uint64_t bytes() const override { return indices_.bytes(); }
  void Read(uint64_t offset, size_t n, char* out) const override { indices_.Read(offset, n, out); }

 private:
  const RowIds rows_;
  const PackedIndices indices_;
};

template <class Rows>
std::unique_ptr<ByteSource> PackedOrNull(Rows&& rows) {
  auto packed = std::make_unique<Packed>(std::forward<Rows>(rows));
  return packed->fits() ? std::move(packed) : nullptr;
}

class PickedValues : public ByteSource {
 public:
  PickedValues(const SparseTensor& tensor, std::vector<uint64_t> positions)
      : tensor_(tensor), positions_(std::move(positions)) {}

  uint64_t bytes() const override { return positions_.size() * tensor_.layout.row_bytes(); }

  void Read(uint64_t offset, size_t n, char* out) const override {
    const uint64_t row_bytes = tensor_.layout.row_bytes();
    ForEachRowPart(
        offset, n, row_bytes, out, [&](uint64_t row, size_t skip, size_t part, char* to) {
          if (positions_[row] == kAbsentRow) {
            std::memset(to, 0, part);
          } else {
            std::memcpy(to, tensor_.values.data() + positions_[row] * row_bytes + skip, part);
          }
        });
  }

 private:
  const SparseTensor& tensor_;
  std::vector<uint64_t> positions_;
};

class DenseValues : public ByteSource {
 public:
  explicit DenseValues(const SparseTensor& tensor) : tensor_(tensor) {}

  uint64_t bytes() const override { return tensor_.layout.num_rows * tensor_.layout.row_bytes(); }

  void Read(uint64_t offset, size_t n, char* out) const override {
    if (n == 0) return;
    std::memset(out, 0, n);
    const uint64_t row_bytes = tensor_.layout.row_bytes();
    const uint64_t end = offset + n;
    const auto& rows = tensor_.indices;
    const uint64_t last = rows.LowerBound((end - 1) / row_bytes + 1);
    for (uint64_t at = rows.LowerBound(offset / row_bytes); at < last;) {
      // Consecutive positions are copied together; most rows have no neighbour in the tensor.
      constexpr uint64_t kRun = 64;
      const bool is_run = last - at >= kRun && rows[at + kRun - 1] - rows[at] == kRun - 1;
      const uint64_t count = is_run ? kRun : 1;
      const uint64_t begin = rows[at] * row_bytes;
      const uint64_t from = std::max(begin, offset);
      const uint64_t to = std::min(begin + count * row_bytes, end);
      Copy(out + (from - offset), tensor_.values.data() + at * row_bytes + (from - begin),
           to - from);
      at += count;
    }
  }

 private:
  // The common case: a row of one value.
  static void Copy(char* out, const std::byte* from, size_t bytes) {
    if (bytes == sizeof(float)) {
      std::memcpy(out, from, sizeof(float));
    } else {
      std::memcpy(out, from, bytes);
    }
  }

  const SparseTensor& tensor_;
};

}  // namespace

std::vector<uint64_t> FindRows(const SparseTensor& tensor, const std::vector<uint64_t>& rows) {
  std::vector<uint64_t> positions;
  positions.reserve(rows.size());
  for (const uint64_t row : rows) {
    const uint64_t at = tensor.indices.LowerBound(row);
    const bool found = at < tensor.nnz() && tensor.indices[at] == row;
    positions.push_back(found ? at : kAbsentRow);
  }
  return positions;
}

std::unique_ptr<ByteSource> MakeIndices(const SparseTensor& tensor,
                                        std::vector<int64_t> indexed_dims) {
  if (indexed_dims.size() == 1) {  // the flattened row is the index and has the same bits as i64
    const HostVector<uint64_t>& kept = tensor.indices.kept();
    if (kept.empty()) return std::make_unique<Counting>(tensor.nnz());
    return std::make_unique<Memory>(kept.data(), kept.size() * sizeof(uint64_t));
  }
  return std::make_unique<Indices>(tensor, std::move(indexed_dims), nullptr);
}

std::unique_ptr<ByteSource> MakeIndices(const SparseTensor& tensor,
                                        std::vector<int64_t> indexed_dims,
                                        std::vector<uint64_t> positions) {
  return std::make_unique<Indices>(tensor, std::move(indexed_dims),
                                   std::make_unique<std::vector<uint64_t>>(std::move(positions)));
}

std::unique_ptr<ByteSource> MakePackedIndices(const RowIds& rows) { return PackedOrNull(rows); }

std::unique_ptr<ByteSource> MakePackedIndices(RowIds&& rows) {
  return PackedOrNull(std::move(rows));
}

std::unique_ptr<ByteSource> MakeValues(const SparseTensor& tensor) {
  return std::make_unique<Memory>(tensor.values.data(), tensor.values.size());
}

std::unique_ptr<ByteSource> MakeValues(const SparseTensor& tensor,
                                       std::vector<uint64_t> positions) {
  return std::make_unique<PickedValues>(tensor, std::move(positions));
}

std::unique_ptr<ByteSource> MakeDenseValues(const SparseTensor& tensor) {
  if (tensor.nnz() == tensor.layout.num_rows) return MakeValues(tensor);
  return std::make_unique<DenseValues>(tensor);
}

}  // namespace sparseagg
