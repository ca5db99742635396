// What the engine reads back from the store as JSON: refused, or read to what its writer would
// write.
#include "service/engine/recovery/stored.h"
#include "tests/fuzz/fuzz_input.h"

namespace sparseagg::fuzz {
namespace {

void Description(std::string_view text) {
  const auto read = ReadDescription(text);
  if (!read.ok()) return;
  const std::string written = WriteDescription(*read);
  const auto again = ReadDescription(written);
  Require(again.ok() && WriteDescription(*again) == written,
          "a description changes when rewritten");
}

void Details(std::string_view text) {
  RoundSnapshot snapshot;
  if (!ReadDetails(text, snapshot).ok()) return;
  const std::string written = WriteDetails(snapshot);
  RoundSnapshot again;
  Require(ReadDetails(written, again).ok() && WriteDetails(again) == written,
          "the state of a round changes when rewritten");
}

void Headers(std::string_view text) {
  const auto read = ReadHeaders(text);
  if (!read.ok()) return;
  const std::string written = WriteHeaders(*read);
  const auto again = ReadHeaders(written);
  Require(again.ok() && WriteHeaders(*again) == written, "headers change when rewritten");
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg::fuzz;
  FuzzInput input(data, size);
  switch (input.Take<uint8_t>()) {
    case 'd':
      Description(input.Rest());
      break;
    case 's':
      Details(input.Rest());
      break;
    case 'h':
      Headers(input.Rest());
      break;
    default:
      break;
  }
  return 0;
}
