// Clears the upper halves of the vector registers, which ISA-L's checksums leave dirty (2.30
// returns from AVX-512 code without vzeroupper). While they are dirty, every SSE instruction of the
// thread depends on the previous write of its register: validating values took six times as long.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_VECTOR_STATE_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_VECTOR_STATE_H_

namespace sparseagg {

// Call it after ISA-L. The build compiles the source file for its processor.
void ClearUpperHalves();

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_VECTOR_STATE_H_
