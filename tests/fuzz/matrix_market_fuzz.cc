// Matrix Market files.   input := u8 value type or none, the file
#include "client/io/matrix_market.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/tensor_file_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::FuzzInput input(data, size);
  client::ReadOptions options{.bytes_max = fuzz::kFileBytesMax};
  const size_t type = input.Below(std::size(kAllValueTypes) + 1);
  if (type < std::size(kAllValueTypes)) options.value_type = kAllValueTypes[type];
  const fuzz::MemoryFile file(input.Rest());
  auto tensor = client::ReadMatrixMarket(file.path(), options);
  if (!tensor.ok()) return 0;
  std::vector<client::Tensor> tensors;
  tensors.push_back(*std::move(tensor));
  fuzz::CheckTensors(tensors);
  fuzz::CheckWriting(tensors, "file.mtx");
  fuzz::CheckWriting(tensors, "file.npz");
  return 0;
}
