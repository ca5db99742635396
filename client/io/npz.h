// Tensors in NumPy archives. Three layouts are read, told apart by the names of the members:
//
//   scipy.sparse    format (a text), shape, data, and the members of the format:  -> one tensor ""
//                     coo  row, col [nnz] (one or two dimensions) or coords [rank, nnz]
//                     csr  indices [nnz], indptr (one or two dimensions);  csc  the same (two)
//                     bsr  indices [blocks], indptr, data [blocks, rows, columns]
//                     dia  offsets [diagonals], data [diagonals, length]
//   sparse tensors  P + indices [nnz, sparse_dim], P + values [nnz, row...], P + dense_shape [rank]
//   dense tensors   P + values, of the tensor's shape                P + dense_shape may repeat it
//
// P is "" or "name/". P + value_type = "bf16" says that values of u16 are bfloat16. An array of any
// other name is a dense tensor of that name, so that numpy.savez(file, w=array) is a file of ours.
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

// The bytes that the tensors of one file may take in memory.
class TensorBudget {
 public:
  TensorBudget(const std::string& path, const ReadOptions& options)
      : path_(path), options_(options), left_(options.bytes_max) {}

  // Takes the bytes of `entries` entries of `layout`, before anything is allocated for them.
  // FILE_TOO_LARGE.
  absl::Status Take(const std::string& where, uint64_t entries, const TensorLayout& layout);

 private:
  const std::string& path_;
  const ReadOptions& options_;
  uint64_t left_;
};

// Reads one member of `zip`, named without ".npy".
absl::StatusOr<NpyArray> ReadMember(const ZipReader& zip, const std::string& name);
// Whether there is such a member, and its index.
std::optional<size_t> FindArray(const ZipReader& zip, const std::string& name);
bool HasMember(const ZipReader& zip, const std::string& name);
// "member x.npy", for errors.
std::string MemberName(const std::string& name);
// The name of a member without ".npy" or ".NPY"; nullopt when it has no such end.
std::optional<std::string> ArrayName(const std::string& member);

// Whether the archive is in scipy.sparse's layout, and its one tensor (scipy_npz.cc).
absl::StatusOr<bool> IsScipy(const ZipReader& zip);
absl::StatusOr<Tensor> ReadScipy(const ZipReader& zip, TensorBudget& budget);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_NPZ_H_
