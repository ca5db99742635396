#include "sparse/window_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sparse/window.h"

namespace sparseagg {
namespace {

// Returns the fraction of the non-zero samples that a window at `lsb` holds; 1 when there are none.
double WindowCoverage(const std::vector<double>& samples, int32_t lsb) {
  size_t counted = 0;
  size_t held = 0;
  for (double sample : samples) {
    if (sample == 0.0) continue;
    Int128 fixed;
    ++counted;
    held += ToFixed(sample, lsb, &fixed) ? 1 : 0;
  }
  return counted == 0 ? 1.0 : static_cast<double>(held) / static_cast<double>(counted);
}

std::vector<double> Gradients(size_t count, double scale) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<double> samples(count);
  for (double& sample : samples) sample = scale * normal(random);
  return samples;
}

TEST(ChooseWindow, HoldsAllGradientsOfAnyScale) {
  for (double scale : {0x1p-120, 0x1p-10, 1.0, 0x1p100}) {
    const std::vector<double> samples = Gradients(4096, scale);
    EXPECT_EQ(WindowCoverage(samples, ChooseWindow(samples)), 1.0) << scale;
  }
}

TEST(ChooseWindow, LeavesRoomAboveAndBelow) {
  const std::vector<double> samples = Gradients(4096, 1);
  const int32_t lsb = ChooseWindow(samples);
  for (double factor : {0x1p-8, 0x1p8}) {
    std::vector<double> later = samples;
    for (double& sample : later) sample *= factor;
    EXPECT_EQ(WindowCoverage(later, lsb), 1.0) << factor;
  }
}

TEST(ChooseWindow, AFewExtremeProductsDoNotMoveItAway) {
  std::vector<double> samples = Gradients(1000, 1);
  for (int i = 0; i < 100; ++i) samples.push_back(i % 2 == 0 ? 1e38 : 1e-45);
  EXPECT_GE(WindowCoverage(samples, ChooseWindow(samples)), 1000.0 / 1100);
}

TEST(ChooseWindow, NothingButZerosIsFine) {
  EXPECT_EQ(ChooseWindow({}), 0);
  EXPECT_EQ(ChooseWindow({0.0, -0.0}), 0);
  EXPECT_EQ(WindowCoverage({0.0}, 17), 1.0);
}

TEST(ChooseWindow, StaysWithinTheExponentsOfF64) {
  const std::vector<double> tiny = {0x1p-1074, 0x1p-1073};
  const int32_t lsb = ChooseWindow(tiny);
  EXPECT_GE(lsb, -1074);
  EXPECT_EQ(WindowCoverage(tiny, lsb), 1.0);
}

}  // namespace
}  // namespace sparseagg
