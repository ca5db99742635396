// Kernels of one instruction set, whatever the machine has: Highway's own mechanism chooses it.
#ifndef SPARSEAGG_TESTS_CPU_ONLY_TARGET_H_
#define SPARSEAGG_TESTS_CPU_ONLY_TARGET_H_

#include <hwy/highway.h>

#include <cstdint>

namespace sparseagg::testing {

// While it lives, the machine has this instruction set and the ones that every machine has.
// Aggregators look their kernels up when they are made.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();  // found out anew by the next dispatch
  }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CPU_ONLY_TARGET_H_
