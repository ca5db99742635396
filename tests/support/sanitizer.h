// Sizes of tests that a sanitizer makes long.
#ifndef SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_
#define SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_

namespace sparseagg::testing {

// Set by CMake for the tests that include this (SPARSEAGG_SANITIZE).
inline constexpr bool kThreadSanitizer = SPARSEAGG_THREAD_SANITIZER;

// An eighth, rounded up, of a size in the thousands under ThreadSanitizer, which makes loops over
// entries twenty times as long. It looks for races between tasks; what happens at which size is for
// the builds without it.
template <class Size>
constexpr Size FewerUnderTsan(Size size) {
  return kThreadSanitizer && size >= 1000 ? (size + 7) / 8 : size;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_
