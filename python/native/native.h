// The core and the CPU back end with a C interface, for the Python package, which loads it with
// ctypes; python/sparseagg/_native_interface.py has the same structures. The checks and the errors
// are those of the server: it is the same code (service/engine/round/local_reductions.h).
//
// A function that can fail returns null, or an error that the caller frees. Memory that an argument
// points to is read during the call only. Objects are freed once, by the function beside them.
//
// Thread-safe, except that an object must not be freed while a call uses it. A process that was
// forked makes a core of its own; reductions of its parent are not used there.
#ifndef SPARSEAGG_PYTHON_NATIVE_NATIVE_H_
#define SPARSEAGG_PYTHON_NATIVE_NATIVE_H_

#include <cstdint>

#define SPARSEAGG_NATIVE_EXPORT extern "C" __attribute__((visibility("default")))

namespace sparseagg::native {

// Bytes, which need not end with a NUL.
struct Bytes {
  const char* data;
  uint64_t size;
};

struct Error {
  int32_t code;             // of gRPC and abseil
  uint64_t retry_after_ms;  // 0: a retry does not help
  Bytes reason;
  Bytes message;
  Bytes metadata;  // key NUL value NUL, for each
};

// One tensor of a specification, as sparseagg::TensorSpec.
struct Spec {
  Bytes name;
  Bytes op;
  Bytes plan;
  const int64_t* dense_shape;  // [rank]
  uint32_t rank;
  uint32_t sparse_dim;
  uint32_t value_type;  // of sparseagg::ValueType
  uint32_t is_modular;
};

// One tensor of an update, as sparseagg::EncodedTensor.
struct Tensor {
  Bytes name;
  Bytes encoding;
  Bytes values_encoding;
  Bytes indices;
  Bytes values;
  const int64_t* dense_shape;  // [rank]
  uint32_t rank;
  uint32_t sparse_dim;
  uint32_t value_type;
  uint32_t has_i32_indices;  // otherwise i64
  uint64_t nnz;
};

// One update of a reduction.
struct Update {
  Bytes id;  // errors name the update by it
  float weight;
  const Tensor* tensors;
  uint64_t count;
};

// One tensor of a result. All memory belongs to the result.
struct ResultTensor {
  const int64_t* dense_shape;  // [rank]
  uint32_t rank;
  uint32_t sparse_dim;
  uint32_t value_type;
  uint64_t nnz;
  // The indices [nnz, 1] as i64, if the result has them in this form; otherwise null, and
  // sparseagg_native_result_indices() makes them.
  const uint64_t* indices;
  const void* values;  // [nnz, row_width]
  uint64_t values_bytes;
};

// The indices of a tensor that is to be packed. Each is within the shape, whose indexed dimensions
// multiply to less than 2^63.
struct Indices {
  const void* data;            // [nnz, sparse_dim]
  const int64_t* dense_shape;  // [sparse_dim] or more
  uint64_t nnz;
  uint32_t sparse_dim;
  uint32_t is_i32;  // otherwise i64
};

struct Manifest {
  uint64_t contributors;
  double total_weight;
  uint64_t infinite_values;
  double publish_time;  // seconds since 1970
};

struct Core;
struct Reduction;
struct Snapshot;
struct Result;
class Packing;

// The version of the library, as text that ends with a NUL. The package refuses another one.
SPARSEAGG_NATIVE_EXPORT const char* sparseagg_native_version();
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_error_free(Error* error);

// Makes the back end; `threads` 0: one for each processor. A core is never freed, because results
// and threads of the process may use it until its end.
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_core_new(uint32_t threads, Core** core);

// With `at_once`, every update is kept until the result is requested, which is fastest where there
// is memory for it.
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_reduction_new(Core* core, const Spec* tensors,
                                                              uint64_t count, uint32_t at_once,
                                                              Reduction** reduction);
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_reduction_free(Reduction* reduction);
// Adds updates, several at a time on the threads of the core. Returns the error of the first that
// is refused; the others may have been added, so that only a single update is added or not.
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_reduction_add(Reduction* reduction,
                                                              const Update* updates,
                                                              uint64_t count);
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_reduction_snapshot(Reduction* reduction,
                                                                   Snapshot** snapshot);
// Writes the snapshot as bytes (service/engine/partial/round_partial.h), which belong to it until
// the next call. One thread at a time.
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_snapshot_write(Snapshot* snapshot, Bytes* bytes);
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_snapshot_read(Bytes bytes, Snapshot** snapshot);
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_snapshot_free(Snapshot* snapshot);
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_reduction_merge(Reduction* reduction,
                                                                const Snapshot* snapshot);
// Ends the reduction.
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_reduction_report(Reduction* reduction,
                                                                 Result** result);

SPARSEAGG_NATIVE_EXPORT void sparseagg_native_result_manifest(const Result* result,
                                                              Manifest* manifest);
// REQUIRES here and below: `i` is below the number of tensors of the specification.
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_result_tensor(const Result* result, uint64_t i,
                                                            ResultTensor* tensor);
// Writes the indices [nnz, sparse_dim].
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_result_indices(const Result* result, uint64_t i,
                                                             int64_t* indices);
// Writes the values of the full shape, with zeros where the result has no entry.
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_result_dense(const Result* result, uint64_t i,
                                                           void* values);
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_result_free(Result* result);

// Packs indices as coo.packed has them. `*packing` becomes null where this and sorting would take
// more than `bytes_max`, and for rows that it cannot sort. The indices must stay as they are as
// long as it lives.
SPARSEAGG_NATIVE_EXPORT Error* sparseagg_native_packing_new(const Indices* indices,
                                                            uint64_t bytes_max, Packing** packing);
SPARSEAGG_NATIVE_EXPORT uint64_t sparseagg_native_packing_bytes(const Packing* packing);
SPARSEAGG_NATIVE_EXPORT uint32_t sparseagg_native_packing_is_in_order(const Packing* packing);
// Writes the packed indices and frees them. REQUIRES: it was not called before.
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_packing_take(Packing* packing, char* packed);
// Writes the values of the entries [begin, end) in ascending order of the rows. REQUIRES: they are
// not in order.
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_packing_values(Packing* packing, const char* values,
                                                             uint64_t row_bytes, uint64_t begin,
                                                             uint64_t end, char* out);
SPARSEAGG_NATIVE_EXPORT void sparseagg_native_packing_free(Packing* packing);

}  // namespace sparseagg::native

#endif  // SPARSEAGG_PYTHON_NATIVE_NATIVE_H_
