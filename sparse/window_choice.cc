#include "sparse/window_choice.h"

#include <algorithm>
#include <cstddef>

#include "sparse/float_format.h"
#include "sparse/window.h"

namespace sparseagg {
namespace {

// The exponents of a number's first and last bit.
struct Bits {
  int first;
  int last;
};

std::vector<Bits> BitsOf(const std::vector<double>& samples) {
  std::vector<Bits> bits;
  for (double sample : samples) {
    const Scaled parts = Decompose(sample);
    if (parts.significand == 0) continue;
    const auto magnitude =
        static_cast<uint64_t>(parts.significand < 0 ? -parts.significand : parts.significand);
    bits.push_back({parts.exponent + 63 - CountLeadingZeros(magnitude),
                    parts.exponent + CountTrailingZeros(magnitude)});
  }
  return bits;
}

}  // namespace

int32_t ChooseWindow(const std::vector<double>& samples) {
  std::vector<Bits> bits = BitsOf(samples);
  if (bits.empty()) return 0;
  std::sort(bits.begin(), bits.end(),
            [](const Bits& a, const Bits& b) { return a.first < b.first; });
  // A sliding range over the samples, sorted by their first bit. A range fits the window if its
  // span, from the lowest last bit to the highest first bit, does; ToFixed() needs room for a whole
  // 53-bit significand above the last bit.
  size_t best_begin = 0;
  size_t best_count = 0;
  for (size_t begin = 0, end = 0; begin < bits.size(); ++begin) {
    const int lowest = bits[begin].first - 52;
    while (end < bits.size() && bits[end].first - lowest < kWindowValueBits) ++end;
    if (end - begin > best_count) {
      best_begin = begin;
      best_count = end - begin;
    }
  }
  int lowest = bits[best_begin].last;
  for (size_t i = best_begin; i < best_begin + best_count; ++i)
    lowest = std::min(lowest, bits[i].last);
  const int highest = bits[best_begin + best_count - 1].first;
  const int slack = std::max(0, kWindowValueBits - (highest - lowest + 1));
  // From the window's last bit up: half of the slack, the samples, the other half.
  return std::max(lowest - slack / 2, -1074);
}

}  // namespace sparseagg
