// What holds of every tensor that was read from a file: its entries are inside its shape, and the
// file that is written from it holds the same tensors.
#ifndef SPARSEAGG_TESTS_FUZZ_TENSOR_FILE_CHECK_H_
#define SPARSEAGG_TESTS_FUZZ_TENSOR_FILE_CHECK_H_

#include <filesystem>
#include <string>
#include <vector>

#include "client/io/tensor_file.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::fuzz {

inline constexpr uint64_t kFileBytesMax = uint64_t{1} << 20;

inline void CheckTensors(const std::vector<client::Tensor>& tensors) {
  for (const client::Tensor& tensor : tensors) {
    TensorSpec spec = client::SpecOf(tensor);
    if (spec.name.empty()) spec.name = "t";  // the one of a file may go without
    const auto layout = MakeLayout(spec);
    Require(layout.ok() && *layout == tensor.layout, "a layout that is not the shape's");
    Require(tensor.values.size() == tensor.nnz() * tensor.layout.row_bytes(), "values of no entry");
    for (const uint64_t row : tensor.indices) {
      Require(row < tensor.layout.num_rows, "a row outside of the shape");
    }
  }
}

// Writes the tensors as a file `name` and reads that; a refusal to write is fine. Text does not say
// of which type its numbers are: i64, the type of whole ones unless told, does not hold all of u64.
inline void CheckWriting(const std::vector<client::Tensor>& tensors, const std::string& name) {
  static const testing::TemporaryFolder kFolder("/dev/shm");
  const std::string path = kFolder.path() + "/" + name;
  if (!client::WriteTensors(path, client::ViewsOf(tensors)).ok()) return;
  client::ReadOptions options;
  if (name.ends_with(".mtx")) options.value_type = tensors[0].layout.value_type;
  const auto again = client::ReadTensors(path, options);
  Require(again.ok() && again->size() == tensors.size(), "a written file cannot be read");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const client::Tensor& before = tensors[i];
    const client::Tensor& after = (*again)[i];
    Require(after.dense_shape == before.dense_shape && after.indices == before.indices,
            "a written file has other entries");
    if (after.layout == before.layout) {
      Require(after.values == before.values, "a written file has other values");
    }
  }
}

}  // namespace sparseagg::fuzz

#endif  // SPARSEAGG_TESTS_FUZZ_TENSOR_FILE_CHECK_H_
