// The tests' version of cuda/cusparse.cc: what the library promises and no more, and what it asks
// of its callers.
#include "cuda/kernels/cusparse/cusparse.h"

#include <cstring>
#include <stdexcept>

#include "tests/cuda/emulator/runtime.h"

namespace sparseagg::gpu {
namespace {

void Require(bool met, const char* what) {
  if (!met) throw std::runtime_error(what);
}

bool IsAligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 16 == 0; }

}  // namespace

bool HaveCusparse() { return true; }

void Multiply(Queue& queue, const Spmm& product) {
  queue.Calls("cusparseSpMM");
  sparseagg::testing::CallLibrary(queue.cuda_stream());
  for (int64_t r = 0; r < product.rows; ++r) {
    for (int64_t c = 0; c < product.columns; ++c) {
      double sum = 0;
      // Backwards: f64 sums of whole numbers below 2^53 have no order.
      for (int64_t i = product.offsets[r + 1]; i-- > product.offsets[r];) {
        sum += product.coefficients[i] * product.b[product.indices[i] * product.columns + c];
      }
      product.out[r * product.columns + c] = sum;
    }
  }
}

DeviceArray<int64_t> ColumnsOfFlags(Queue& queue, const FlagMatrix& matrix) {
  queue.Calls("cusparseDenseToSparse");
  sparseagg::testing::CallLibrary(queue.cuda_stream());
  Require(matrix.rows > 0 && matrix.columns > 0, "cusparseCreateDnMat: an empty matrix");
  Require(IsAligned(matrix.flags) && IsAligned(matrix.offsets), "cusparseCreateDnMat: alignment");
  matrix.offsets[0] = 0;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    int64_t set = 0;
    for (int64_t c = 0; c < matrix.columns; ++c) {
      set += matrix.flags[r * matrix.columns + c] != 0 ? 1 : 0;
    }
    matrix.offsets[r + 1] = matrix.offsets[r] + set;
  }
  queue.Synchronize();
  DeviceArray<int64_t> columns(queue, static_cast<size_t>(matrix.offsets[matrix.rows]));
  int64_t at = 0;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    // Backwards: the library promises no order inside a row.
    for (int64_t c = matrix.columns; c-- > 0;) {
      if (matrix.flags[r * matrix.columns + c] != 0) columns.data()[at++] = c;
    }
  }
  return columns;
}

void Gather(Queue& queue, const Gathering& gathering) {
  queue.Calls("cusparseGather");
  sparseagg::testing::CallLibrary(queue.cuda_stream());
  Require(gathering.size > 0 && gathering.size <= gathering.from_size,
          "cusparseCreateSpVec: more entries than places");
  Require(IsAligned(gathering.places) && IsAligned(gathering.to) && IsAligned(gathering.from),
          "cusparseGather: alignment");
  const size_t bytes = gathering.element == Element::kBytes8 ? 8 : 16;
  for (int64_t i = gathering.size; i-- > 0;) {
    const uint64_t place = gathering.places[i];
    Require(place < static_cast<uint64_t>(gathering.from_size), "cusparseGather: index");
    std::memcpy(static_cast<std::byte*>(gathering.to) + static_cast<size_t>(i) * bytes,
                static_cast<const std::byte*>(gathering.from) + place * bytes, bytes);
  }
}

}  // namespace sparseagg::gpu
