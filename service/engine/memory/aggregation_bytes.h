// The memory that the rounds of a server may take.
#ifndef SPARSEAGG_SERVICE_ENGINE_MEMORY_AGGREGATION_BYTES_H_
#define SPARSEAGG_SERVICE_ENGINE_MEMORY_AGGREGATION_BYTES_H_

#include <cstdint>

#include "service/engine/limits.h"
#include "sparse/backend.h"

namespace sparseagg {

// Returns aggregation_bytes_max, or what fits into the memory of the back end and of the host.
uint64_t AggregationBytes(const Limits& limits, const Backend& backend);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_MEMORY_AGGREGATION_BYTES_H_
