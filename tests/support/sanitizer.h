// Smaller sizes for tests that a sanitizer makes slow.
#ifndef SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_
#define SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_

namespace sparseagg::testing {

// Set by CMake for the tests that include this (SPARSEAGG_SANITIZE).
inline constexpr bool kThreadSanitizer = SPARSEAGG_THREAD_SANITIZER;

// Under ThreadSanitizer, returns an eighth, rounded up, of a size of 1000 or more: it makes loops
// over entries twenty times slower. It looks for races between tasks; builds without it test the
// effects of size.
template <class Size>
constexpr Size FewerUnderTsan(Size size) {
  return kThreadSanitizer && size >= 1000 ? (size + 7) / 8 : size;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_SANITIZER_H_
