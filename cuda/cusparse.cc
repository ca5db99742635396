// cuSPARSE behind kernels/spmm.h. The library is 162 MB and on few machines: it is opened at run
// time, so that a server without it starts, and only its plan is missing.
#include <cusparse.h>
#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "cuda/kernels/spmm.h"

namespace sparseagg::gpu {
namespace {

// The functions that are used, with the types of cusparse.h.
struct Library {
  decltype(&cusparseCreate) create = nullptr;
  decltype(&cusparseDestroy) destroy = nullptr;
  decltype(&cusparseSetStream) set_stream = nullptr;
  decltype(&cusparseCreateCsr) create_csr = nullptr;
  decltype(&cusparseCreateDnMat) create_dense = nullptr;
  decltype(&cusparseDestroySpMat) destroy_sparse = nullptr;
  decltype(&cusparseDestroyDnMat) destroy_dense = nullptr;
  decltype(&cusparseSpMM_bufferSize) buffer_size = nullptr;
  decltype(&cusparseSpMM) multiply = nullptr;
  bool complete = false;

  Library() {
    void* library = dlopen("libcusparse.so.12", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    complete = Find(library, "cusparseCreate", create) &&
               Find(library, "cusparseDestroy", destroy) &&
               Find(library, "cusparseSetStream", set_stream) &&
               Find(library, "cusparseCreateCsr", create_csr) &&
               Find(library, "cusparseCreateDnMat", create_dense) &&
               Find(library, "cusparseDestroySpMat", destroy_sparse) &&
               Find(library, "cusparseDestroyDnMat", destroy_dense) &&
               Find(library, "cusparseSpMM_bufferSize", buffer_size) &&
               Find(library, "cusparseSpMM", multiply);
  }

 private:
  template <class F>
  static bool Find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
};

const Library& TheLibrary() {
  static const Library library;
  return library;
}

void Check(cusparseStatus_t status, const char* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  // Out of memory is the one error after which the device is as good as before.
  if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES) {
    throw CudaError(cudaErrorMemoryAllocation, what);
  }
  throw std::runtime_error(std::string(what) + ": cuSPARSE status " +
                           std::to_string(static_cast<int>(status)));
}

// Handle and descriptors of one product.
struct Objects {
  cusparseHandle_t handle = nullptr;
  cusparseSpMatDescr_t a = nullptr;
  cusparseDnMatDescr_t b = nullptr;
  cusparseDnMatDescr_t out = nullptr;

  ~Objects() {
    const Library& library = TheLibrary();
    if (out != nullptr) library.destroy_dense(out);
    if (b != nullptr) library.destroy_dense(b);
    if (a != nullptr) library.destroy_sparse(a);
    if (handle != nullptr) library.destroy(handle);
  }
};

}  // namespace

bool HaveSpmm() { return TheLibrary().complete; }

void Multiply(Queue& queue, const Spmm& product) {
  const Library& library = TheLibrary();
  Objects objects;
  Check(library.create(&objects.handle), "cusparseCreate");
  Check(library.set_stream(objects.handle, queue.cuda_stream()), "cusparseSetStream");
  Check(library.create_csr(&objects.a, product.rows, product.inner, product.nnz, product.offsets,
                           product.indices, product.coefficients, CUSPARSE_INDEX_64I,
                           CUSPARSE_INDEX_64I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
        "cusparseCreateCsr");
  Check(library.create_dense(&objects.b, product.inner, product.columns, product.columns, product.b,
                             CUDA_R_64F, CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  Check(library.create_dense(&objects.out, product.rows, product.columns, product.columns,
                             product.out, CUDA_R_64F, CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  const double one = 1;
  const double zero = 0;
  size_t bytes = 0;
  Check(library.buffer_size(objects.handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
                            CUSPARSE_OPERATION_NON_TRANSPOSE, &one, objects.a, objects.b, &zero,
                            objects.out, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT, &bytes),
        "cusparseSpMM_bufferSize");
  DeviceArray<std::byte> buffer(queue, bytes);
  Check(library.multiply(objects.handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
                         CUSPARSE_OPERATION_NON_TRANSPOSE, &one, objects.a, objects.b, &zero,
                         objects.out, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT, buffer.data()),
        "cusparseSpMM");
}

}  // namespace sparseagg::gpu
