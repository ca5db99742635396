#include "sparse/partials/narrow_block.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sparse/partials/exact_number.h"
#include "sparse/partials/little_endian.h"
#include "sparse/values.h"

namespace sparseagg {
namespace {

constexpr int kUnitBits = 62;
// The powers of two of units, and their inverses, are doubles.
constexpr int kLsbMin = -960;
constexpr int kLsbMax = 800;
// Larger doubles are scaled down to units, and a small one beside them might become 0.
constexpr int kDoubleTopMax = kUnitBits;

constexpr size_t kFixedHead = sizeof(uint16_t) + sizeof(int16_t);

double PowerOfTwo(int exponent) {
  return BitCast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// The position of the digit that has the bit of 2^exponent.
int DigitOf(int exponent) { return (exponent - WideInteger::kLastBit) / 32; }

}  // namespace

void NarrowBlock::SetZeros(size_t count) {
  count_ = count;
  lsb_ = 0;
  units_.fill(0);
  summary_ = {};
}

bool NarrowBlock::Set(std::span<const double> numbers) {
  std::array<double, kBlockSlots> padded;
  const double* from = numbers.data();
  if (numbers.size() < kBlockSlots) {
    std::fill(std::copy(numbers.begin(), numbers.end(), padded.begin()), padded.end(), 0.0);
    from = padded.data();
  }
  // Several maxima, since each step waits for the one before it.
  std::array<double, 4> maxima = {};
  for (size_t i = 0; i < kBlockSlots; i += maxima.size()) {
    for (size_t k = 0; k < maxima.size(); ++k) {
      maxima[k] = std::max(maxima[k], std::fabs(from[i + k]));
    }
  }
  const double largest = std::max(std::max(maxima[0], maxima[1]), std::max(maxima[2], maxima[3]));
  if (largest == 0.0) {
    SetZeros(numbers.size());
    return true;
  }
  const int top = static_cast<int>(BitCast<uint64_t>(largest) >> 52) - 1022;
  if (top > kDoubleTopMax || top < kLsbMin + kUnitBits) return false;
  count_ = numbers.size();
  lsb_ = top - kUnitBits;
  const double up = PowerOfTwo(-lsb_);  // at least 1, so nothing becomes 0
  Summary summary;
  bool exact = true;
  for (size_t i = 0; i < kBlockSlots; ++i) {
    const double scaled = from[i] * up;
    const auto unit = static_cast<int64_t>(scaled);
    exact &= static_cast<double>(unit) == scaled;
    units_[i] = unit;
    summary.Add(unit);
  }
  summary_ = summary;
  return exact;
}

bool NarrowBlock::Set(std::span<const Int128> slots, int32_t lsb) {
  UInt128 any = 0;
  for (const Int128 slot : slots) any |= static_cast<UInt128>(slot);
  if (any == 0) {
    SetZeros(slots.size());
    return true;
  }
  const auto low = static_cast<uint64_t>(any);
  const int shift = low != 0 ? CountTrailingZeros(low)
                             : 64 + CountTrailingZeros(static_cast<uint64_t>(any >> 64));
  count_ = slots.size();
  lsb_ = lsb + shift;
  if (lsb_ < kLsbMin || lsb_ > kLsbMax) return false;
  Summary summary;
  bool fits = true;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Int128 unit = slots[i] >> shift;
    fits &= unit >> kUnitBits == unit >> 127;
    units_[i] = static_cast<int64_t>(unit);
    summary.Add(units_[i]);
  }
  std::fill(units_.begin() + count_, units_.end(), 0);
  summary_ = summary;
  return fits;
}

template <class V>
bool NarrowBlock::AreValues(int shift) const {
  const auto is_value = [&](int64_t unit) {
    if constexpr (ValueTraits<V>::kFloating) {
      constexpr FloatFormat kFormat = ValueTraits<V>::kFormat;
      if (unit == 0) return true;
      const uint64_t magnitude = MagnitudeOf(unit);
      const int zeros = CountTrailingZeros(magnitude);
      return lsb_ + zeros >= kFormat.min_exponent && (magnitude >> zeros) >> kFormat.precision == 0;
    } else {
      return FitsInteger<V>(Int128{unit >> shift} * (Int128{1} << (lsb_ + shift)));
    }
  };
  if constexpr (ValueTraits<V>::kFloating) {
    if (top() - 1 > ValueTraits<V>::kFormat.max_exponent) return false;
  } else {
    if (lsb_ + shift < 0 || top() > 64) return false;
  }
  return std::all_of(units_.begin(), units_.begin() + count_, is_value);
}

// A lower bound, as in blocks.cc: a number whose lowest and highest bit are in different digits has
// at least two.
bool NarrowBlock::MayBeShorterInDigits(size_t bytes) const {
  size_t least = sizeof(uint16_t) + count_ + kDigitBytes * summary_.nonzeros;
  for (size_t i = 0; i < count_ && least < bytes; ++i) {
    const uint64_t magnitude = MagnitudeOf(units_[i]);
    if (magnitude == 0) continue;
    const int low = DigitOf(lsb_ + CountTrailingZeros(magnitude));
    if (low != DigitOf(lsb_ + 63 - CountLeadingZeros(magnitude))) least += kDigitBytes;
  }
  return least < bytes;
}

bool NarrowBlock::Choose(const BlockKind& kind, Form& form) const {
  if (summary_.any == 0) {
    form = {kZerosForm, 0, 0};
    return true;
  }
  const int shift = CountTrailingZeros(summary_.any);
  const auto width = static_cast<size_t>(BitWidth(summary_.magnitudes) - shift) / 8 + 1;
  size_t bytes = kFixedHead + count_ * width;
  form = {static_cast<uint16_t>(width), width, shift};
  if (kind.raw.has_value()) {
    const size_t size = SizeOf(*kind.raw);
    const size_t raw_bytes = sizeof(uint16_t) + count_ * size;
    if (raw_bytes <= bytes && WithValueType(*kind.raw, [&](auto tag) {
          return AreValues<typename decltype(tag)::type>(shift);
        })) {
      form = {kRawForm, size, shift};
      bytes = raw_bytes;
    }
  }
  return !MayBeShorterInDigits(bytes);
}

bool NarrowBlock::Write(const BlockKind& kind, std::string& out) const {
  Form form;
  if (!Choose(kind, form)) return false;
  std::array<char, kFixedHead + sizeof(int64_t) * (kBlockSlots + 1)> buffer;
  char* at = buffer.data();
  const auto put = [&at](const auto& number, size_t bytes) {
    std::memcpy(at, &number, sizeof(number));
    at += bytes;
  };
  put(form.form, sizeof(form.form));
  if (form.form == kRawForm) {
    WithValueType(*kind.raw, [&](auto tag) {
      using V = typename decltype(tag)::type;
      for (size_t i = 0; i < count_; ++i) {
        if constexpr (ValueTraits<V>::kFloating) {
          const double value = static_cast<double>(units_[i]) * PowerOfTwo(lsb_);
          put(ValueTraits<V>::Narrow(value), sizeof(V));
        } else {
          const Int128 value = Int128{units_[i] >> form.shift} * (Int128{1} << (lsb_ + form.shift));
          put(static_cast<V>(value), sizeof(V));
        }
      }
    });
  } else if (form.form != kZerosForm) {
    put(static_cast<int16_t>(lsb_ + form.shift), sizeof(int16_t));
    for (size_t i = 0; i < count_; ++i) put(units_[i] >> form.shift, form.bytes);
  }
  out.append(buffer.data(), static_cast<size_t>(at - buffer.data()));
  return true;
}

bool NarrowBlock::ReadRaw(std::string_view& bytes, const BlockKind& kind, size_t count) {
  return WithValueType(*kind.raw, [&](auto tag) {
    using V = typename decltype(tag)::type;
    std::array<typename ValueTraits<V>::Wide, kBlockSlots> numbers;
    if (bytes.size() / sizeof(V) < count) return false;
    bool valid = true;
    for (size_t i = 0; i < count; ++i) {
      V raw;
      std::memcpy(&raw, bytes.data() + i * sizeof(V), sizeof(V));
      if constexpr (ValueTraits<V>::kFloating) {
        numbers[i] = Widen(raw);
        valid &= IsFiniteBits(numbers[i]) && BitCast<uint64_t>(numbers[i]) != uint64_t{1} << 63;
      } else {
        numbers[i] = raw;
      }
    }
    bytes.remove_prefix(count * sizeof(V));
    const std::span all(numbers.data(), count);
    if constexpr (ValueTraits<V>::kFloating) return valid && Set(all);
    if constexpr (!ValueTraits<V>::kFloating) return Set(all, 0);
  });
}

bool NarrowBlock::ReadFixed(std::string_view& bytes, size_t width, size_t count) {
  int16_t lsb = 0;
  if (!TakeNumber(bytes, lsb) || lsb < kLsbMin || lsb > kLsbMax) return false;
  if (bytes.size() / width < count) return false;
  // Numbers are loaded as eight bytes each: near the end of the bytes, from a copy.
  std::array<char, sizeof(int64_t) * (kBlockSlots + 1)> copy;
  const char* from = bytes.data();
  if (bytes.size() < kBlockSlots * width + sizeof(int64_t)) {
    bytes.copy(copy.data(), count * width);
    from = copy.data();
  }
  const int drop = 64 - 8 * static_cast<int>(width);
  count_ = count;
  lsb_ = lsb;
  Summary summary;
  for (size_t i = 0; i < count; ++i, from += width) {
    uint64_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    units_[i] = static_cast<int64_t>(bits << drop) >> drop;
    summary.Add(units_[i]);
  }
  summary_ = summary;
  std::fill(units_.begin() + count, units_.end(), 0);
  bytes.remove_prefix(count * width);
  return summary.magnitudes >> kUnitBits == 0;
}

bool NarrowBlock::Read(std::string_view& bytes, const BlockKind& kind, size_t count) {
  std::string_view rest = bytes;
  uint16_t stated = 0;
  if (!TakeNumber(rest, stated)) return false;
  if (stated == kZerosForm) {
    SetZeros(count);
  } else if (stated == kRawForm) {
    if (!kind.raw.has_value() || !ReadRaw(rest, kind, count)) return false;
  } else if (stated > sizeof(int64_t) || !ReadFixed(rest, stated, count)) {
    return false;
  }
  Form form;
  if (!Choose(kind, form) || form.form != stated) return false;
  if (stated != kRawForm && form.shift != 0) return false;  // the unit is too small
  bytes = rest;
  return true;
}

bool NarrowBlock::ToDoubles(double* out) const {
  const double scale = PowerOfTwo(lsb_);
  const auto is_double = [](int64_t unit) {
    return static_cast<int64_t>(static_cast<double>(unit)) == unit;
  };
  if (BitWidth(summary_.magnitudes) > kFormatF64.precision &&
      !std::all_of(units_.begin(), units_.end(), is_double)) {
    return false;
  }
  for (size_t i = 0; i < count_; ++i) out[i] = static_cast<double>(units_[i]) * scale;
  return true;
}

}  // namespace sparseagg
