// Helpers for libraries that replace functions of the C library in a program (LD_PRELOAD).
#ifndef SPARSEAGG_TESTS_SUPPORT_INTERPOSE_H_
#define SPARSEAGG_TESTS_SUPPORT_INTERPOSE_H_

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace sparseagg::testing {

// Returns the function that this library's function of the same name hides.
template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Returns the path of an open file descriptor; empty when it has none.
inline std::string PathOf(int fd) {
  char link[64];
  char path[PATH_MAX + 1] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  return readlink(link, path, PATH_MAX) < 0 ? std::string() : std::string(path);
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_INTERPOSE_H_
