// cuSPARSE behind kernels/cusparse/cusparse.h. The library is 162 MB and on few machines: it is
// opened at run time, so that a server without it starts, and only its plans are missing.
#include "cuda/kernels/cusparse/cusparse.h"

#include <cusparse.h>
#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace sparseagg::gpu {
namespace {

// The functions that are used, with the types of cusparse.h.
struct Library {
  decltype(&cusparseCreate) create = nullptr;
  decltype(&cusparseDestroy) destroy = nullptr;
  decltype(&cusparseSetStream) set_stream = nullptr;
  decltype(&cusparseCreateCsr) create_csr = nullptr;
  decltype(&cusparseCreateDnMat) create_dense = nullptr;
  decltype(&cusparseCreateDnVec) create_dense_vector = nullptr;
  decltype(&cusparseCreateSpVec) create_sparse_vector = nullptr;
  decltype(&cusparseDestroySpMat) destroy_sparse = nullptr;
  decltype(&cusparseDestroyDnMat) destroy_dense = nullptr;
  decltype(&cusparseDestroyDnVec) destroy_dense_vector = nullptr;
  decltype(&cusparseDestroySpVec) destroy_sparse_vector = nullptr;
  decltype(&cusparseSpMM_bufferSize) multiply_bytes = nullptr;
  decltype(&cusparseSpMM) multiply = nullptr;
  decltype(&cusparseDenseToSparse_bufferSize) convert_bytes = nullptr;
  decltype(&cusparseDenseToSparse_analysis) analyse = nullptr;
  decltype(&cusparseDenseToSparse_convert) convert = nullptr;
  decltype(&cusparseSpMatGetSize) sparse_size = nullptr;
  decltype(&cusparseCsrSetPointers) set_csr = nullptr;
  decltype(&cusparseGather) gather = nullptr;
  bool complete = false;

  Library() {
    void* library = dlopen("libcusparse.so.12", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    complete =
        Find(library, "cusparseCreate", create) && Find(library, "cusparseDestroy", destroy) &&
        Find(library, "cusparseSetStream", set_stream) &&
        Find(library, "cusparseCreateCsr", create_csr) &&
        Find(library, "cusparseCreateDnMat", create_dense) &&
        Find(library, "cusparseCreateDnVec", create_dense_vector) &&
        Find(library, "cusparseCreateSpVec", create_sparse_vector) &&
        Find(library, "cusparseDestroySpMat", destroy_sparse) &&
        Find(library, "cusparseDestroyDnMat", destroy_dense) &&
        Find(library, "cusparseDestroyDnVec", destroy_dense_vector) &&
        Find(library, "cusparseDestroySpVec", destroy_sparse_vector) &&
        Find(library, "cusparseSpMM_bufferSize", multiply_bytes) &&
        Find(library, "cusparseSpMM", multiply) &&
        Find(library, "cusparseDenseToSparse_bufferSize", convert_bytes) &&
        Find(library, "cusparseDenseToSparse_analysis", analyse) &&
        Find(library, "cusparseDenseToSparse_convert", convert) &&
        Find(library, "cusparseSpMatGetSize", sparse_size) &&
        Find(library, "cusparseCsrSetPointers", set_csr) && Find(library, "cusparseGather", gather);
  }

 private:
  template <class F>
  static bool Find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
};

const Library& OpenedLibrary() {
  static const Library kLibrary;
  return kLibrary;
}

// REQUIRES: HaveCusparse(); throws otherwise.
const Library& TheLibrary() {
  const Library& library = OpenedLibrary();
  if (!library.complete) throw std::runtime_error("libcusparse.so.12 cannot be opened");
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

// The queue's handle: making one takes device memory and waits, so that a handle for each product
// would cost more than the products.
cusparseHandle_t HandleOf(Queue& queue) {
  const Library& library = TheLibrary();
  if (queue.handle() == nullptr) {
    cusparseHandle_t handle = nullptr;
    Check(queue.waits().During([&] { return library.create(&handle); }), "cusparseCreate");
    std::shared_ptr<void> owner(
        handle, [&library](void* made) { library.destroy(static_cast<cusparseHandle_t>(made)); });
    Check(library.set_stream(handle, queue.cuda_stream()), "cusparseSetStream");
    queue.handle() = std::move(owner);
  }
  return static_cast<cusparseHandle_t>(queue.handle().get());
}

// The descriptors of one operation, and the handle that it is called with.
struct Objects {
  cusparseHandle_t handle;
  cusparseSpMatDescr_t sparse = nullptr;
  cusparseDnMatDescr_t dense = nullptr;
  cusparseDnMatDescr_t out = nullptr;
  cusparseDnVecDescr_t dense_vector = nullptr;
  cusparseSpVecDescr_t sparse_vector = nullptr;

  explicit Objects(Queue& queue) : handle(HandleOf(queue)) {}
  ~Objects() {
    const Library& library = TheLibrary();
    if (sparse_vector != nullptr) library.destroy_sparse_vector(sparse_vector);
    if (dense_vector != nullptr) library.destroy_dense_vector(dense_vector);
    if (out != nullptr) library.destroy_dense(out);
    if (dense != nullptr) library.destroy_dense(dense);
    if (sparse != nullptr) library.destroy_sparse(sparse);
  }
};

}  // namespace

bool HaveCusparse() { return OpenedLibrary().complete; }

void Multiply(Queue& queue, const Spmm& product) {
  const Library& library = TheLibrary();
  Objects objects(queue);
  Check(
      library.create_csr(&objects.sparse, product.rows, product.inner, product.nnz, product.offsets,
                         product.indices, product.coefficients, CUSPARSE_INDEX_64I,
                         CUSPARSE_INDEX_64I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
      "cusparseCreateCsr");
  Check(library.create_dense(&objects.dense, product.inner, product.columns, product.columns,
                             product.b, CUDA_R_64F, CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  Check(library.create_dense(&objects.out, product.rows, product.columns, product.columns,
                             product.out, CUDA_R_64F, CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  const double one = 1;
  const double zero = 0;
  size_t bytes = 0;
  Check(
      library.multiply_bytes(objects.handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
                             CUSPARSE_OPERATION_NON_TRANSPOSE, &one, objects.sparse, objects.dense,
                             &zero, objects.out, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT, &bytes),
      "cusparseSpMM_bufferSize");
  DeviceArray<std::byte> buffer(queue, bytes);
  queue.Calls("cusparseSpMM");
  // Nothing says that the library does not wait.
  Check(queue.waits().During([&] {
    return library.multiply(objects.handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
                            CUSPARSE_OPERATION_NON_TRANSPOSE, &one, objects.sparse, objects.dense,
                            &zero, objects.out, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT,
                            buffer.data());
  }),
        "cusparseSpMM");
}

DeviceArray<int64_t> ColumnsOfFlags(Queue& queue, const FlagMatrix& matrix) {
  const Library& library = TheLibrary();
  Objects objects(queue);
  Check(library.create_dense(&objects.dense, matrix.rows, matrix.columns, matrix.columns,
                             matrix.flags, CUDA_R_8I, CUSPARSE_ORDER_ROW),
        "cusparseCreateDnMat");
  Check(library.create_csr(&objects.sparse, matrix.rows, matrix.columns, 0, matrix.offsets, nullptr,
                           nullptr, CUSPARSE_INDEX_64I, CUSPARSE_INDEX_64I,
                           CUSPARSE_INDEX_BASE_ZERO, CUDA_R_8I),
        "cusparseCreateCsr");
  size_t bytes = 0;
  Check(library.convert_bytes(objects.handle, objects.dense, objects.sparse,
                              CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, &bytes),
        "cusparseDenseToSparse_bufferSize");
  DeviceArray<std::byte> buffer(queue, bytes);
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t nnz = 0;
  queue.Calls("cusparseDenseToSparse");
  // The library waits for the device to learn the size.
  Check(queue.waits().During([&] {
    return library.analyse(objects.handle, objects.dense, objects.sparse,
                           CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer.data());
  }),
        "cusparseDenseToSparse_analysis");
  Check(library.sparse_size(objects.sparse, &rows, &columns, &nnz), "cusparseSpMatGetSize");
  DeviceArray<int64_t> set(queue, static_cast<size_t>(nnz));
  DeviceArray<uint8_t> ones(queue, static_cast<size_t>(nnz));
  if (nnz == 0) return set;
  Check(library.set_csr(objects.sparse, matrix.offsets, set.data(), ones.data()),
        "cusparseCsrSetPointers");
  Check(library.convert(objects.handle, objects.dense, objects.sparse,
                        CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer.data()),
        "cusparseDenseToSparse_convert");
  return set;
}

void Gather(Queue& queue, const Gathering& gathering) {
  const Library& library = TheLibrary();
  const cudaDataType type = gathering.element == Element::kBytes8 ? CUDA_R_64F : CUDA_C_64F;
  Objects objects(queue);
  Check(
      library.create_dense_vector(&objects.dense_vector, gathering.from_size, gathering.from, type),
      "cusparseCreateDnVec");
  Check(library.create_sparse_vector(&objects.sparse_vector, gathering.from_size, gathering.size,
                                     gathering.places, gathering.to, CUSPARSE_INDEX_64I,
                                     CUSPARSE_INDEX_BASE_ZERO, type),
        "cusparseCreateSpVec");
  queue.Calls("cusparseGather");
  Check(library.gather(objects.handle, objects.dense_vector, objects.sparse_vector),
        "cusparseGather");
}

}  // namespace sparseagg::gpu
