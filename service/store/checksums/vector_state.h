// ISA-L's checksums leave the upper halves of the vector registers as they are (2.30: no vzeroupper
// before they return from AVX-512). Until somebody clears them, every SSE instruction of the thread
// waits for the one before that wrote the same register: checking values took six times as long.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_VECTOR_STATE_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_VECTOR_STATE_H_

namespace sparseagg {

// To be called after ISA-L. The build takes the source of its processor.
void ClearUpperHalves();

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_VECTOR_STATE_H_
