// Limits of the protocol that both client and server observe.
#ifndef SPARSEAGG_PROTO_LIMITS_H_
#define SPARSEAGG_PROTO_LIMITS_H_

#include <cstdint>

namespace sparseagg {

inline constexpr uint64_t kBatchUpdatesMax = 1000;  // updates in one UpdateBatch

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_LIMITS_H_
