// Sparse matrix times dense matrix, of whole numbers in f64: the seam to cuSPARSE, which is loaded
// when it is first needed.
#ifndef SPARSEAGG_CUDA_KERNELS_SPMM_H_
#define SPARSEAGG_CUDA_KERNELS_SPMM_H_

#include <cstdint>

#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// out = A * b. A is [rows, inner] in CSR, b [inner, columns] and out [rows, columns] are row-major.
// All in device memory.
struct Spmm {
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  int64_t nnz = 0;
  int64_t* offsets = nullptr;      // [rows + 1]
  int64_t* indices = nullptr;      // [nnz]
  double* coefficients = nullptr;  // [nnz]
  double* b = nullptr;
  double* out = nullptr;
};

// Whether the library is there.
bool HaveSpmm();

// Throws CudaError; a message of the library's says what it could not do.
void Multiply(Queue& queue, const Spmm& product);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SPMM_H_
