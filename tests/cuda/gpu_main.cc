// main() of tests that need a GPU: without one they are skipped, visibly, or fail when
// SPARSEAGG_REQUIRE_GPU is 1.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/device/probe.h"

constexpr int kSkipped = 77;  // as CTest is told

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto gpus = sparseagg::ProbeGpus();
  if (gpus.ok()) return RUN_ALL_TESTS();
  const char* required = std::getenv("SPARSEAGG_REQUIRE_GPU");
  const bool fail = required != nullptr && std::string(required) == "1";
  std::printf("%s %s\n", fail ? "[  FAILED  ]" : "[  SKIPPED ]",
              std::string(gpus.status().message()).c_str());
  return fail ? 1 : kSkipped;
}
