// Sizes of tests that a sanitizer makes long.
#ifndef SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_
#define SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_

#include <cstdint>

namespace sparseagg::testing {

// Set by CMake for the tests that include this (SPARSEAGG_SANITIZE).
inline constexpr bool kThreadSanitizer = SPARSEAGG_THREAD_SANITIZER;

// An eighth of a size in the thousands under ThreadSanitizer, which makes loops over entries twenty
// times as long: it looks for races between tasks, and there are as many tasks with fewer entries.
// What happens at which size is for the builds without it.
constexpr uint64_t FewerUnderTsan(uint64_t size) {
  return kThreadSanitizer && size >= 1000 ? size / 8 : size;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_
