// Names the instruction set that the kernels use on this machine.
#ifndef SPARSEAGG_CPU_STATE_INSTRUCTION_SET_H_
#define SPARSEAGG_CPU_STATE_INSTRUCTION_SET_H_

#include <cstddef>

namespace sparseagg {

// The instruction set that the kernels of floating types use: "AVX2".
const char* InstructionSet();

// The size of its vectors: 64 with AVX-512. The answer is computed once, because
// hwy::SupportedTargets() queries the processor at each call, which takes 40 us on a virtual
// machine.
size_t VectorBytes();

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_INSTRUCTION_SET_H_
