// Runs the host+device numerics of sparse/ on a GPU, one thread for each case.
#ifndef SPARSEAGG_TESTS_CUDA_DEVICE_NUMERICS_H_
#define SPARSEAGG_TESTS_CUDA_DEVICE_NUMERICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "sparse/float_format.h"
#include "sparse/slot_math.h"
#include "sparse/wide_integer.h"
#include "sparse/window.h"

namespace sparseagg::testing {

// Everything that decides a bit, for one pair of values: the same code on both processors.
struct NumericsResult {
  uint64_t rounded[4];  // the exact sum as f16, bf16, f32, f64
  uint64_t window[4];   // the slot and its rounding to f32, when the window holds the product
  uint64_t quotient;
  int64_t whole;

  friend bool operator==(const NumericsResult&, const NumericsResult&) = default;
};

SPARSEAGG_HOST_DEVICE inline NumericsResult ComputeNumerics(double a, double b, float weight) {
  NumericsResult result = {};
  WideInteger sum;
  sum.Add(a);
  sum.Add(b);
  const FloatFormat formats[4] = {
      {11, -24, 15}, {8, -133, 127}, {24, -149, 127}, {53, -1074, 1023}};
  for (int f = 0; f < 4; ++f) result.rounded[f] = BitCast<uint64_t>(sum.Round(formats[f]));
  const double product = Lift(static_cast<float>(b), weight);
  Int128 slot = 0;
  const int lsb = Decompose(a).exponent - 40;
  result.window[0] = IsFiniteBits(product) && ToFixed(product, lsb, &slot) ? 1 : 0;
  result.window[1] = static_cast<uint64_t>(static_cast<UInt128>(slot) >> 64);
  result.window[2] = static_cast<uint64_t>(slot);
  result.window[3] = BitCast<uint64_t>(RoundScaled(slot, lsb, formats[2]));
  result.quotient = BitCast<uint64_t>(Quotient(a, b));
  result.whole = static_cast<int64_t>(RoundToInteger(b));
  return result;
}

// The same on the GPU. Empty and `error` set when a CUDA call fails.
std::vector<NumericsResult> ComputeOnDevice(const std::vector<double>& a,
                                            const std::vector<double>& b,
                                            const std::vector<float>& weights, std::string& error);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CUDA_DEVICE_NUMERICS_H_
