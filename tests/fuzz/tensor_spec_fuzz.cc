// Tensors on the command line: refused, or read to a spec whose text is read to the same spec.
#include "client/cli/tensor_spec.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::FuzzInput input(data, size);
  const auto spec = cli::ParseTensorSpec(input.Rest());
  if (!spec.ok()) return 0;
  MakeLayout(*spec).IgnoreError();
  const std::string text = cli::FormatTensorSpec(*spec);
  const auto again = cli::ParseTensorSpec(text);
  fuzz::Require(again.ok() && cli::FormatTensorSpec(*again) == text,
                "a specification changes when rewritten");
  return 0;
}
