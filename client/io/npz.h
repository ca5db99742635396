// Tensors in NumPy archives. Three layouts are read; the names of the members decide which:
//
//   scipy.sparse    format (a text), shape, data, and the members of the format:  -> one tensor ""
//                     coo  row, col [nnz] (one or two dimensions) or coords [rank, nnz]
//                     csr  indices [nnz], indptr (one or two dimensions);  csc  the same (two)
//                     bsr  indices [blocks], indptr, data [blocks, rows, columns]
//                     dia  offsets [diagonals], data [diagonals, length]
//   sparse tensors  P + indices [nnz, sparse_dim], P + values [nnz, row...], P + dense_shape [rank]
//   dense tensors   P + values, of the tensor's shape                P + dense_shape may repeat it
//
// P is "" or "name/". P + value_type = "bf16" marks u16 values as bfloat16. An array of any other
// name is a dense tensor of that name, so that a file of numpy.savez(file, w=array) can be read.
//
// Written: one sparse matrix of scalars as scipy.sparse "coo", anything else as the other two.
#ifndef SPARSEAGG_CLIENT_IO_NPZ_H_
#define SPARSEAGG_CLIENT_IO_NPZ_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/io/npy.h"
#include "client/io/tensor_file.h"
#include "client/io/zip_archive.h"
#include "client/tensor.h"

namespace sparseagg::client {

absl::StatusOr<std::vector<Tensor>> ReadNpz(const std::string& path, const ReadOptions& options);

// REQUIRES: the names differ, and none is empty where there are several.
absl::Status WriteNpz(const std::string& path, std::span<const TensorView> tensors);

// The memory budget for the tensors of one file.
class TensorBudget {
 public:
  TensorBudget(const std::string& path, const ReadOptions& options)
      : path_(path), options_(options), left_(options.bytes_max) {}

  // Subtracts the bytes of `entries` entries of `layout`, before they are allocated. FILE_TOO_LARGE
  // if they exceed the budget.
  absl::Status Take(const std::string& where, uint64_t entries, const TensorLayout& layout);

 private:
  const std::string& path_;
  const ReadOptions& options_;
  uint64_t left_;
};

// Reads one member of `zip`; `name` is without ".npy".
absl::StatusOr<NpyArray> ReadMember(const ZipReader& zip, const std::string& name);
// The index of this member; nullopt if there is none.
std::optional<size_t> FindArray(const ZipReader& zip, const std::string& name);
bool HasMember(const ZipReader& zip, const std::string& name);
// "member x.npy", for errors.
std::string MemberName(const std::string& name);
// The name of a member without ".npy" or ".NPY"; nullopt if it does not end with either.
std::optional<std::string> ArrayName(const std::string& member);

// Whether the archive has scipy.sparse's layout, and reading its one tensor (scipy_npz.cc).
absl::StatusOr<bool> IsScipy(const ZipReader& zip);
absl::StatusOr<Tensor> ReadScipy(const ZipReader& zip, TensorBudget& budget);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_NPZ_H_
