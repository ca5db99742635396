// The stored bytes of a result: refused, or read to tensors that are written as the same bytes.
#include <vector>

#include "service/engine/recovery/stored.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::FuzzInput input(data, size);
  RoundSpec spec;
  const size_t tensors = 1 + input.Below(3);
  for (size_t i = 0; i < tensors; ++i) {
    TensorSpec& tensor = spec.tensors.emplace_back();
    tensor.name = std::string(1, static_cast<char>('a' + i));
    tensor.value_type = kAllValueTypes[input.Below(std::size(kAllValueTypes))];
    tensor.dense_shape = {1 + input.Take<uint16_t>(), 1 + input.Take<uint16_t>()};
    tensor.sparse_dim = static_cast<uint32_t>(input.Below(3));
    tensor.op = input.Below(4) == 0 ? "count" : "sum";
  }
  const std::string_view bytes = input.Rest();
  const auto read = ReadResult(bytes, spec);
  if (!read.ok()) return 0;
  std::vector<uint64_t> sizes;
  std::string written;
  for (const std::string_view piece : ResultPieces(*read, sizes)) written += piece;
  fuzz::Require(written == bytes, "a result changes when rewritten");
  return 0;
}
