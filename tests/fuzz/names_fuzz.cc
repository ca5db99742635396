// Names from outside: those that are taken can stand in a log line, a path and a quoted message as
// they are; what is quoted is always one printable line of bounded length.
#include <algorithm>

#include "service/engine/names.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

bool Printable(std::string_view text, std::string_view besides) {
  for (const char c : text) {
    if (c < ' ' || c > '~' || besides.find(c) != std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  using fuzz::Require;
  fuzz::FuzzInput input(data, size);
  const std::string_view name = input.Rest();
  const bool taken[] = {ValidateRoundId(name).ok(), ValidateRoundName(name).ok(),
                        ValidateContributor(name).ok(), ValidateUpdateId(name).ok()};
  for (const bool is_taken : taken) {
    if (!is_taken) continue;
    Require(!name.empty() && name.size() <= 256, "a name without a length that is allowed");
    Require(Printable(name, " \"'\\=%"), "a name with a character that needs quoting");
  }
  if (taken[0]) Require(name.find('/') == std::string_view::npos, "a round id with a slash");
  if (ValidateRequestId(name).ok()) Require(name.size() <= 64 && Printable(name, ""), "request id");
  const std::string quoted = Quoted(name);
  const bool one_line = std::none_of(quoted.begin(), quoted.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
  });
  Require(one_line && quoted.size() <= 400, "a quoted name that is not one line");
  return 0;
}
