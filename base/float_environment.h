// The settings of the processor for floating point, of which each thread has its own. A library of
// the process may change them: one that is linked with -Ofast makes the thread that loads it take
// subnormal numbers for 0, and so does torch.set_flush_denormal(True). Additions and their errors
// are then no longer exact. So main(), the functions of the Python package's native library and the
// bodies of parallel loops begin with a DefaultFloatEnvironment.
//
// A thread begins with the settings of the thread that makes it, because Linux copies the
// registers. So one that is made while such an object lives needs none of its own. oneTBB's workers
// do: oneTBB gives them the settings that some thread had when it first used oneTBB.
#ifndef SPARSEAGG_BASE_FLOAT_ENVIRONMENT_H_
#define SPARSEAGG_BASE_FLOAT_ENVIRONMENT_H_

#include <cfenv>

namespace sparseagg {

// While it lives, the thread that made it rounds to the nearest, keeps subnormal numbers and masks
// all exceptions. Afterwards the settings and the sticky flags are those of before. It covers
// operations whose operands come from memory and whose results go there. It takes some nanoseconds,
// so it stands around the work of a task or a call, not around that of a row.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment();
  ~DefaultFloatEnvironment();
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_FLOAT_ENVIRONMENT_H_
