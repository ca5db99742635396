// The messages that bring updates, in any pieces: read as protobuf's parser reads them.
//
//   input := u8 number of cuts up to 3, u8 each, the message
#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/silence_protobuf.h"
#include "tests/support/protobuf_comparison.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::SilenceProtobuf();
  fuzz::FuzzInput input(data, size);
  std::vector<size_t> cuts(input.Below(4));
  for (size_t& cut : cuts) cut = input.Take<uint8_t>();
  const std::string bytes(input.Rest());
  for (size_t& cut : cuts) cut = std::min(cut, bytes.size());
  std::sort(cuts.begin(), cuts.end());
  const std::string difference = testing::DifferenceFromProtobuf(bytes, cuts);
  fuzz::Require(difference.empty(), difference);
  return 0;
}
