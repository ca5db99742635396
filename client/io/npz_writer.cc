// Writing: the same tensors give the same bytes.
#include <cstring>
#include <list>
#include <span>

#include "absl/strings/str_cat.h"
#include "client/io/npz.h"

namespace sparseagg::client {
namespace {

// Collects members, and owns the arrays made for them.
class MemberList {
 public:
  void Add(const std::string& name, std::string_view descr, std::span<const int64_t> shape,
           std::string_view body) {
    members_.push_back({name + ".npy", NpyHeader(descr, shape), body});
  }
  void AddText(const std::string& name, const std::string& text) {
    owned_.push_back(text);
    Add(name, absl::StrCat("|S", text.size()), {}, owned_.back());
  }
  template <class T>
  void AddIntegers(const std::string& name, std::span<const int64_t> shape,
                   const std::vector<T>& numbers) {
    static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>);
    owned_.emplace_back(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
    Add(name, sizeof(T) == 4 ? "<i4" : "<i8", shape, owned_.back());
  }
  const std::vector<ZipMember>& members() const { return members_; }

 private:
  std::vector<ZipMember> members_;
  std::list<std::string> owned_;
};

std::string_view ValueBytes(const CooView& entries) {
  return {static_cast<const char*>(entries.values), entries.nnz * entries.layout.row_bytes()};
}

bool IsScipyMatrix(const TensorView& tensor) {
  return tensor.sparse_dim == 2 && tensor.dense_shape.size() == 2 &&
         tensor.entries.layout.value_type != ValueType::kBF16;
}

template <class T>
void AddCoordinates(const TensorView& tensor, MemberList& list) {
  std::vector<T> rows(tensor.entries.nnz);
  std::vector<T> columns(tensor.entries.nnz);
  for (uint64_t i = 0; i < tensor.entries.nnz; ++i) {
    int64_t index[2];
    UnflattenIndex(tensor.entries.rows.wide()[i], tensor.dense_shape, index);
    rows[i] = static_cast<T>(index[0]);
    columns[i] = static_cast<T>(index[1]);
  }
  const int64_t shape[] = {static_cast<int64_t>(tensor.entries.nnz)};
  list.AddIntegers("row", shape, rows);
  list.AddIntegers("col", shape, columns);
}

void AddScipy(const TensorView& tensor, MemberList& list) {
  list.AddText("format", "coo");
  const int64_t rank[] = {2};
  list.AddIntegers("shape", rank, tensor.dense_shape);
  const int64_t nnz[] = {static_cast<int64_t>(tensor.entries.nnz)};
  list.Add("data", NpyDescr(tensor.entries.layout.value_type), nnz, ValueBytes(tensor.entries));
  // SciPy uses 32-bit positions if they suffice.
  const bool small = tensor.dense_shape[0] <= INT32_MAX && tensor.dense_shape[1] <= INT32_MAX;
  small ? AddCoordinates<int32_t>(tensor, list) : AddCoordinates<int64_t>(tensor, list);
}

void AddSparse(const TensorView& tensor, const std::string& prefix, MemberList& list) {
  const std::span<const int64_t> shape(tensor.dense_shape);
  std::vector<int64_t> indices(tensor.entries.nnz * tensor.sparse_dim);
  for (uint64_t i = 0; i < tensor.entries.nnz; ++i) {
    UnflattenIndex(tensor.entries.rows.wide()[i], shape.first(tensor.sparse_dim),
                   std::span(indices).subspan(i * tensor.sparse_dim, tensor.sparse_dim));
  }
  const auto nnz = static_cast<int64_t>(tensor.entries.nnz);
  const int64_t indices_shape[] = {nnz, tensor.sparse_dim};
  list.AddIntegers(prefix + "indices", indices_shape, indices);
  std::vector<int64_t> values_shape = {nnz};
  values_shape.insert(values_shape.end(), shape.begin() + tensor.sparse_dim, shape.end());
  list.Add(prefix + "values", NpyDescr(tensor.entries.layout.value_type), values_shape,
           ValueBytes(tensor.entries));
}

}  // namespace

absl::Status WriteNpz(const std::string& path, std::span<const TensorView> tensors) {
  MemberList list;
  std::list<std::string> zeros;  // the values of dense tensors without an entry
  if (tensors.size() == 1 && IsScipyMatrix(tensors[0])) {
    AddScipy(tensors[0], list);
    return WriteZip(path, list.members());
  }
  for (const TensorView& tensor : tensors) {
    const std::string prefix = tensors.size() == 1 ? "" : tensor.name + "/";
    const ValueType type = tensor.entries.layout.value_type;
    if (tensor.sparse_dim > 0) {
      AddSparse(tensor, prefix, list);
    } else if (tensor.entries.nnz > 0) {
      list.Add(prefix + "values", NpyDescr(type), tensor.dense_shape, ValueBytes(tensor.entries));
    } else {
      zeros.emplace_back(tensor.entries.layout.row_bytes(), '\0');
      list.Add(prefix + "values", NpyDescr(type), tensor.dense_shape, zeros.back());
    }
    const int64_t rank[] = {static_cast<int64_t>(tensor.dense_shape.size())};
    list.AddIntegers(prefix + "dense_shape", rank, tensor.dense_shape);
    if (type == ValueType::kBF16) {
      list.AddText(prefix + "value_type", std::string(ValueTypeName(type)));
    }
  }
  return WriteZip(path, list.members());
}

}  // namespace sparseagg::client
