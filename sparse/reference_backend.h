// The reference back end, which defines every result. It keeps one wide integer for each coordinate
// in one map, and is written as plainly as possible. It is slow and takes much memory; the tests
// compare the other back ends with it byte for byte.
#ifndef SPARSEAGG_SPARSE_REFERENCE_BACKEND_H_
#define SPARSEAGG_SPARSE_REFERENCE_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg {

// Never fails. Ignores the options, since it is serial.
absl::StatusOr<std::unique_ptr<Backend>> MakeReferenceBackend(const BackendOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_REFERENCE_BACKEND_H_
