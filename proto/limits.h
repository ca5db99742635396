// Limits of the protocol that both ends keep.
#ifndef SPARSEAGG_PROTO_LIMITS_H_
#define SPARSEAGG_PROTO_LIMITS_H_

#include <cstdint>

namespace sparseagg {

inline constexpr uint64_t kBatchUpdatesMax = 1000;  // of an UpdateBatch

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_LIMITS_H_
