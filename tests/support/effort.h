// How much a randomized test checks: little in an ordinary test run, as much as an environment
// variable says in a long one (./dev reliability).
#ifndef SPARSEAGG_TESTS_SUPPORT_EFFORT_H_
#define SPARSEAGG_TESTS_SUPPORT_EFFORT_H_

#include <cstdlib>

namespace sparseagg::testing {

inline int Effort(const char* variable, int usual) {
  const char* wanted = std::getenv(variable);
  return wanted == nullptr ? usual : std::atoi(wanted);
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_EFFORT_H_
