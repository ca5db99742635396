// Selects the kernels of one instruction set, whatever the machine has, by Highway's own mechanism.
#ifndef SPARSEAGG_TESTS_CPU_ONLY_TARGET_H_
#define SPARSEAGG_TESTS_CPU_ONLY_TARGET_H_

#include <hwy/highway.h>

#include <cstdint>

namespace sparseagg::testing {

// While it lives, Highway sees only this instruction set and the baseline. Aggregators look up
// their kernels when they are made.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();  // the next dispatch detects it again
  }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CPU_ONLY_TARGET_H_
