// The tests' version of cuda/cusparse.cc.
#include "cuda/kernels/spmm.h"

namespace sparseagg::gpu {

bool HaveSpmm() { return true; }

void Multiply(Queue&, const Spmm& product) {
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

}  // namespace sparseagg::gpu
