// Arrays of NumPy: the member of an archive, and what is made of it.
#include "client/io/npy.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  using fuzz::Require;
  fuzz::FuzzInput input(data, size);
  const std::string_view input_bytes = input.Rest();
  const auto array = client::ParseNpy(std::string(input_bytes), "file", "member");
  if (!array.ok()) return 0;
  Require(array->size() * array->item_bytes == array->data().size(), "elements of no size");
  const auto type = client::NpyValueType(*array);
  if (type.has_value()) {
    Require(client::ToValues(*array, *type).size() == array->size() * SizeOf(*type),
            "other values than elements");
  }
  client::ToText(*array);
  const auto integers = client::ToIntegers(*array, "file", "member");
  if (integers.ok()) {
    Require(integers->size() == array->size(), "other integers than elements");
    for (const int64_t integer : *integers) Require(integer >= 0, "a negative length");
  }
  const auto head = client::ParseNpyHead(input_bytes, input_bytes.size());
  Require(head.has_value() && head->shape == array->shape && head->dtype() == array->dtype(),
          "the beginning tells another array");
  // As it would be written.
  const auto again = client::ParseNpy(
      client::NpyHeader(array->dtype(), array->shape) + std::string(array->data()), "f", "m");
  Require(again.ok() && again->shape == array->shape && again->data() == array->data(),
          "an array changes when rewritten");
  return 0;
}
