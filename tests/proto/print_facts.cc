// Prints the current interface, as `./dev release-proto` records it.
#include <cstdio>

#include "tests/proto/facts.h"

int main() {
  for (const std::string& fact : sparseagg::CurrentInterfaceFacts())
    std::printf("%s\n", fact.c_str());
  return 0;
}
