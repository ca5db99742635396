// The seam to cuSPARSE, which is loaded when it is first needed: a product of whole numbers, and
// from a dense array to the places that are held in it, and what stands there. All arrays are in
// device memory and begin at multiples of 16 bytes, as those of the pool do. Throws CudaError; a
// message of the library's says what it could not do.
#ifndef SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_H_
#define SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_H_

#include <cstdint>

#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Whether the library is there, with all that is used of it.
bool HaveCusparse();

// out = A * b, in f64. A is [rows, inner] in CSR, b [inner, columns] and out [rows, columns] are
// row-major.
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

// cusparseSpMM.
void Multiply(Queue& queue, const Spmm& product);

// A dense matrix of bytes, row-major, and where those that are not zero are.
struct FlagMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  uint8_t* flags = nullptr;    // [rows, columns]
  int64_t* offsets = nullptr;  // [rows + 1], written: flags that are set in the rows before
};

// cusparseDenseToSparse. The columns of the flags that are set, row by row, in any order inside a
// row. Waits for the queue.
DeviceArray<int64_t> ColumnsOfFlags(Queue& queue, const FlagMatrix& matrix);

// Elements that are moved as they are, named after the numbers of their size that cuSPARSE moves.
enum class Element { kBytes8, kBytes16 };

struct Gathering {
  Element element;
  int64_t from_size = 0;
  void* from = nullptr;        // [from_size]
  int64_t size = 0;            // above 0
  uint64_t* places = nullptr;  // [size], each below from_size
  void* to = nullptr;          // [size]
};

// cusparseGather: to[i] = from[places[i]].
void Gather(Queue& queue, const Gathering& gathering);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_H_
