#include <cstdint>

#include "base/float_environment.h"

namespace sparseagg {
namespace {

// The register MXCSR when a program starts: round to nearest, all exceptions masked, neither
// flush-to-zero nor denormals-are-zeros.
constexpr uint32_t kDefault = 0x1F80;

}  // namespace

// Nothing here computes on the x87 unit, whose settings take ten times as long.
DefaultFloatEnvironment::DefaultFloatEnvironment() {
  asm volatile("stmxcsr %0" : "=m"(before_.__mxcsr));
  asm volatile("ldmxcsr %0" ::"m"(kDefault) : "memory");
}

DefaultFloatEnvironment::~DefaultFloatEnvironment() {
  asm volatile("ldmxcsr %0" ::"m"(before_.__mxcsr) : "memory");
}

}  // namespace sparseagg
