// The reference back end: the definition of every result. One wide integer for each coordinate, one
// map, no cleverness. Slow and large; the other back ends are compared with it byte for byte.
#ifndef SPARSEAGG_SPARSE_REFERENCE_BACKEND_H_
#define SPARSEAGG_SPARSE_REFERENCE_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg {

// Never fails. Ignores the options: it is serial.
absl::StatusOr<std::unique_ptr<Backend>> MakeReferenceBackend(const BackendOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_REFERENCE_BACKEND_H_
