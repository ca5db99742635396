#include "base/float_environment.h"

namespace sparseagg {

// On 64-bit ARM these set the register FPCR, with its bit for flush-to-zero.
DefaultFloatEnvironment::DefaultFloatEnvironment() {
  std::fegetenv(&before_);
  std::fesetenv(FE_DFL_ENV);
}

DefaultFloatEnvironment::~DefaultFloatEnvironment() { std::fesetenv(&before_); }

}  // namespace sparseagg
