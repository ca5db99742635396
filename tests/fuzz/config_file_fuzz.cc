// Configuration files: refused with a line, or read; a value that a setting takes is printed as a
// line of such a file that gives the same value.
#include "service/config/config.h"
#include "service/config/config_file.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::FuzzInput input(data, size);
  const auto lines = ParseConfigFile(input.Rest(), "file");
  if (!lines.ok()) return 0;
  ServerConfig config;
  for (const ConfigLine& line : *lines) {
    for (const Setting& setting : Settings()) {
      if (setting.name != line.key || !setting.parse(line.value, config).ok()) continue;
      const std::string printed = setting.print(config);
      const auto reread = ParseConfigFile(line.key + " = " + printed + "  # comment", "printed");
      ServerConfig again;
      fuzz::Require(reread.ok() && reread->size() == 1 &&
                        setting.parse((*reread)[0].value, again).ok() &&
                        setting.print(again) == printed,
                    "a setting does not read what it prints");
    }
  }
  return 0;
}
