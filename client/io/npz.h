// Tensors in NumPy archives. Three layouts are read, told apart by the names of the members:
//
//   scipy.sparse    format ("coo", "csr" or "csc"), shape [2], data [nnz], and row, col [nnz]
//                   (or coords [2, nnz]) or indices [nnz], indptr                 -> one tensor ""
//   sparse tensors  P + indices [nnz, sparse_dim], P + values [nnz, row...], P + dense_shape [rank]
//   dense tensors   P + values, of the tensor's shape                P + dense_shape may repeat it
//
// P is "" or "name/". P + value_type = "bf16" says that values of u16 are bfloat16. An array of any
// other name is a dense tensor of that name, so that numpy.savez(file, w=array) is a file of ours.
//
// Written: one sparse matrix of scalars as scipy.sparse "coo", anything else as the other two.
#ifndef SPARSEAGG_CLIENT_IO_NPZ_H_
#define SPARSEAGG_CLIENT_IO_NPZ_H_

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

// Reads one member of `zip`, named without ".npy".
absl::StatusOr<NpyArray> ReadMember(const ZipReader& zip, const std::string& name);
// Whether there is such a member.
bool HasMember(const ZipReader& zip, const std::string& name);
// "member x.npy", for errors.
std::string MemberName(const std::string& name);

// The one tensor of an archive in scipy.sparse's layout (scipy_npz.cc).
absl::StatusOr<Tensor> ReadScipy(const ZipReader& zip);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_NPZ_H_
