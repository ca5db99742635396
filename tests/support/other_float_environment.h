// The settings for floating point that a program or a library may leave a thread with.
#ifndef SPARSEAGG_TESTS_SUPPORT_OTHER_FLOAT_ENVIRONMENT_H_
#define SPARSEAGG_TESTS_SUPPORT_OTHER_FLOAT_ENVIRONMENT_H_

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>

namespace sparseagg::testing {

enum class FloatSettings { kFlushToZero, kUpward, kTowardZero };
inline constexpr FloatSettings kOtherFloatSettings[] = {
    FloatSettings::kFlushToZero, FloatSettings::kUpward, FloatSettings::kTowardZero};

// Returns whether this thread takes the smallest number for 0.
inline bool FlushesToZero() {
  volatile double least = std::numeric_limits<double>::denorm_min();
  volatile double more = least + least;  // not a comparison, which an emulator may get right
  return !(more > 0);
}

// Returns whether this thread rounds to the nearest.
inline bool RoundsToNearest() {
  volatile double one = 1.0;
  volatile double above = one + 0x1p-60;
  volatile double below = one - 0x1p-60;
  return above == 1.0 && below == 1.0;
}

// While it lives, the thread that made it has other settings than those of a new program.
class OtherFloatEnvironment {
 public:
  explicit OtherFloatEnvironment(FloatSettings settings) {
    std::fegetenv(&before_);
    switch (settings) {
      case FloatSettings::kFlushToZero:
        FlushToZero(before_);
        EXPECT_TRUE(FlushesToZero());
        return;
      case FloatSettings::kUpward:
        std::fesetround(FE_UPWARD);
        break;
      case FloatSettings::kTowardZero:
        std::fesetround(FE_TOWARDZERO);
        break;
    }
    EXPECT_FALSE(RoundsToNearest());
  }
  ~OtherFloatEnvironment() { std::fesetenv(&before_); }
  OtherFloatEnvironment(const OtherFloatEnvironment&) = delete;
  OtherFloatEnvironment& operator=(const OtherFloatEnvironment&) = delete;

 private:
  // Sets the bits of the register that this kind of processor has (as the C library names it).
  template <class Settings>
  static void FlushToZero(Settings settings) {
    if constexpr (requires { settings.__mxcsr; }) settings.__mxcsr |= 0x8040;
    if constexpr (requires { settings.__fpcr; }) settings.__fpcr |= 1u << 24;
    std::fesetenv(&settings);
  }

  std::fenv_t before_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_OTHER_FLOAT_ENVIRONMENT_H_
