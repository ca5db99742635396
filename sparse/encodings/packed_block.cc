#include "sparse/encodings/packed_block.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sparseagg {
namespace {

constexpr std::array<uint64_t, kBlockWordsMax + 5> kKeys = [] {
  std::array<uint64_t, kBlockWordsMax + 5> keys{};
  for (uint64_t n = 0; n < keys.size(); ++n) keys[n] = BlockKey(n);
  return keys;
}();

// 255 differences of this width cannot carry a row beyond 64 bits: 2^63 + 255 * 2^54 < 2^64.
constexpr uint32_t kSafeWidthMax = 54;

// std::popcount() is a function call if the build does not allow the instruction; this one is
// vectorized (Warren, Hacker's Delight, 5-1).
uint32_t PopCount(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
}

// Counts the bits of each of eight bytes.
uint64_t BitsOfBytes(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555;
  x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
  return (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F;
}

uint32_t SumOfBytes(uint64_t x) {  // the sum may exceed a byte
  const uint64_t pairs = (x & 0x00FF00FF00FF00FF) + (x >> 8 & 0x00FF00FF00FF00FF);
  return static_cast<uint32_t>(pairs * 0x0001000100010001 >> 48);
}

// The part of a block's check that does not depend on its words.
uint64_t CheckOfHead(uint64_t first, uint32_t form) {
  return kKeys[1] + kKeys[2] * static_cast<uint32_t>(first) + kKeys[3] * (first >> 32) +
         kKeys[4] * form;
}

// Unpacks eight differences at a time. They fill whole bytes, so that the bit position of each is a
// compile-time constant, and one load of 8 bytes holds several. Returns the number of rows written.
template <uint32_t kWidth>
uint32_t UnpackGroups(uint64_t step, const char* words, uint32_t count, uint64_t* rows) {
  constexpr uint32_t kGroup = 8;
  constexpr uint32_t kPerLoad = kWidth <= 8 ? 8 : kWidth <= 16 ? 4 : kWidth <= 28 ? 2 : 1;
  constexpr uint64_t kMask = (uint64_t{1} << kWidth) - 1;
  uint64_t row = rows[0];
  uint32_t i = 1;
  for (; i + kGroup <= count; i += kGroup, words += kWidth) {
#pragma GCC unroll 8
    for (uint32_t load = 0; load < kGroup; load += kPerLoad) {
      const uint32_t bit = load * kWidth;
      const uint64_t bits = LoadAs<uint64_t>(words + bit / 8) >> bit % 8;
#pragma GCC unroll 8
      for (uint32_t d = 0; d < kPerLoad; ++d) {
        row += (bits >> d * kWidth & kMask) + step;
        rows[i + load + d] = row;
      }
    }
  }
  return i;
}

using GroupUnpacker = uint32_t (*)(uint64_t, const char*, uint32_t, uint64_t*);

template <uint32_t... kWidths>  // less 1
constexpr std::array<GroupUnpacker, sizeof...(kWidths)> GroupUnpackers(
    std::integer_sequence<uint32_t, kWidths...>) {
  return {UnpackGroups<kWidths + 1>...};
}
constexpr auto kUnpackGroups =
    GroupUnpackers(std::make_integer_sequence<uint32_t, kSafeWidthMax>());

void UnpackNarrow(uint64_t row, uint64_t step, uint32_t width, const char* words, uint32_t count,
                  uint64_t* rows) {
  if (width == 0) {  // consecutive or equal rows: a separate loop is vectorized
    for (uint32_t i = 0; i < count; ++i) rows[i] = row + step * i;
    return;
  }
  const uint64_t mask = (uint64_t{1} << width) - 1;
  rows[0] = row;
  for (uint32_t i = kUnpackGroups[width - 1](step, words, count, rows); i < count; ++i) {
    const uint64_t bit = uint64_t{i - 1} * width;
    rows[i] = rows[i - 1] + ((LoadAs<uint64_t>(words + bit / 8) >> bit % 8) & mask) + step;
  }
}

const char* UnpackWide(uint64_t row, uint64_t step, uint32_t width, const char* words,
                       uint32_t count, uint64_t* rows) {
  constexpr uint64_t kRowMax = (uint64_t{1} << 63) - 1;
  const uint64_t mask = (uint64_t{1} << width) - 1;
  uint64_t bit = 0;
  rows[0] = row;
  for (uint32_t i = 1; i < count; ++i, bit += width) {
    const auto bits = LoadAs<unsigned __int128>(words + (bit >> 3)) >> (bit & 7);
    const uint64_t difference = (static_cast<uint64_t>(bits) & mask) + step;
    if (difference > kRowMax - row) return "a row is beyond 2^63";
    row += difference;
    rows[i] = row;
  }
  return nullptr;
}

const char* CheckBitmap(const char* words, uint32_t num_words, uint32_t count) {
  uint32_t bits = 0;
  for (uint32_t w = 0; w < num_words; ++w) bits += PopCount(LoadAs<uint32_t>(words + 4 * w));
  if (bits != count)
    return "the number of bits set in its bitmap differs from its number of entries";
  if (num_words == 0 || (LoadAs<uint32_t>(words) & 1) == 0 ||
      LoadAs<uint32_t>(words + 4 * (num_words - 1)) == 0) {
    return "its bitmap must begin with a set bit and end with a word that is not 0";
  }
  return nullptr;
}

const char* UnpackBitmap(uint64_t first, const char* words, uint32_t num_words, uint32_t count,
                         uint64_t* rows) {
  const char* wrong = CheckBitmap(words, num_words, count);
  if (wrong != nullptr) return wrong;
  for (uint32_t w = 0; w < num_words; ++w) {
    for (uint32_t rest = LoadAs<uint32_t>(words + 4 * w); rest != 0; rest &= rest - 1) {
      *rows++ = first + 32 * uint64_t{w} + static_cast<uint32_t>(std::countr_zero(rest));
    }
  }
  return nullptr;
}

}  // namespace

PackedForm ChoosePackedForm(const uint64_t* rows, uint32_t count) {
  uint64_t largest = 0;  // bits of all differences
  bool repeats = false;
  uint64_t smaller = 0;  // bits of all differences less 1
  for (uint32_t i = 1; i < count; ++i) {
    const uint64_t difference = rows[i] - rows[i - 1];
    repeats |= difference == 0;
    largest |= difference;
    smaller |= difference - 1;
  }
  const auto width = static_cast<uint32_t>(std::bit_width(repeats ? largest : smaller));
  const PackedForm packed = {width + (repeats ? kRepeatsForm : 0), PackedWords(count, width)};
  const uint64_t bitmap_words = (rows[count - 1] - rows[0]) / 32 + 1;
  const uint64_t too_many = packed.words + (width == 1 ? packed.words / 8 + 1 : 0);
  if (repeats || bitmap_words >= too_many) return packed;
  return {kBitmapForm, static_cast<uint32_t>(bitmap_words)};
}

void PackBlock(const uint64_t* rows, uint32_t count, const PackedForm& plan, uint32_t* words) {
  std::fill_n(words, plan.words, 0);
  if (plan.form == kBitmapForm) {
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t bit = rows[i] - rows[0];
      words[bit / 32] |= uint32_t{1} << (bit % 32);
    }
    return;
  }
  const uint64_t step = plan.form < kRepeatsForm ? 1 : 0;
  const uint32_t width = plan.form % kRepeatsForm;
  if (width == 0) return;
  unsigned __int128 pending = 0;  // bits of the next word; fewer than 32 before each addition
  uint32_t pending_bits = 0;
  for (uint32_t i = 1; i < count; ++i) {
    const uint64_t difference = rows[i] - rows[i - 1] - step;
    pending |= static_cast<unsigned __int128>(difference) << pending_bits;
    for (pending_bits += width; pending_bits >= 32; pending_bits -= 32) {
      *words++ = static_cast<uint32_t>(pending);
      pending >>= 32;
    }
  }
  if (pending_bits > 0) *words = static_cast<uint32_t>(pending);
}

uint32_t BlockCheck(uint64_t first, uint32_t form, const void* words, uint32_t num_words) {
  const char* from = static_cast<const char*>(words);
  uint64_t sum = CheckOfHead(first, form);
  for (uint32_t i = 0; i < num_words; ++i) sum += kKeys[5 + i] * LoadAs<uint32_t>(from + 4 * i);
  return static_cast<uint32_t>(sum >> 40);
}

const char* UnpackBlock(uint64_t first, uint32_t form, const char* words, uint32_t num_words,
                        uint32_t count, uint64_t* rows) {
  if (form == kBitmapForm) return UnpackBitmap(first, words, num_words, count, rows);
  const uint64_t step = form < kRepeatsForm ? 1 : 0;
  const uint32_t width = form % kRepeatsForm;
  if (width > kSafeWidthMax) return UnpackWide(first, step, width, words, count, rows);
  UnpackNarrow(first, step, width, words, count, rows);
  return nullptr;
}

bool IsCrowdedBlock(const BlockEntry& entry, const char* words, uint64_t num_words,
                    uint64_t& last) {
  if (entry.form() == 0 && num_words == 0) {
    last = entry.first + kBlockEntries - 1;
    return BlockCheck(entry.first, 0, words, 0) == entry.check();
  }
  if (entry.form() != kBitmapForm || num_words > kCrowdedWords) return false;
  uint64_t sum = CheckOfHead(entry.first, kBitmapForm);
  uint64_t bits_of_bytes = 0;  // at most 8 from each of 8 pairs of words
  uint32_t i = 0;
  for (; i + 2 <= num_words; i += 2) {
    const auto pair = LoadAs<uint64_t>(words + 4 * i);
    sum += kKeys[5 + i] * static_cast<uint32_t>(pair) + kKeys[6 + i] * (pair >> 32);
    bits_of_bytes += BitsOfBytes(pair);
  }
  if (i < num_words) {
    const auto word = LoadAs<uint32_t>(words + 4 * i);
    sum += kKeys[5 + i] * word;
    bits_of_bytes += BitsOfBytes(word);
  }
  if (sum >> 40 != entry.check() || SumOfBytes(bits_of_bytes) != kBlockEntries) return false;
  const auto last_word = LoadAs<uint32_t>(words + 4 * (num_words - 1));
  if ((LoadAs<uint32_t>(words) & 1) == 0 || last_word == 0) return false;
  last = LastOfBitmap(entry.first, words, static_cast<uint32_t>(num_words));
  return true;
}

const char* InspectBlock(uint64_t first, uint32_t form, const char* words, uint32_t num_words,
                         uint32_t count, BlockRows& rows) {
  if (form == kBitmapForm) {
    const char* wrong = CheckBitmap(words, num_words, count);
    if (wrong != nullptr) return wrong;
    rows = {LastOfBitmap(first, words, num_words), true};
    return nullptr;
  }
  if (form % kRepeatsForm == 0) {
    const bool distinct = form < kRepeatsForm || count == 1;
    rows = {distinct ? first + count - 1 : first, distinct};
    return nullptr;
  }
  if (form == 1) {
    uint64_t ones = 0;  // unused bits are ignored
    for (uint32_t i = 0; i < count - 1; i += 32) {
      const uint32_t left = count - 1 - i;
      const auto word = LoadAs<uint32_t>(words + i / 8);
      ones += PopCount(left < 32 ? word & ((1u << left) - 1) : word);
    }
    rows = {first + (count - 1) + ones, true};
    return nullptr;
  }
  std::array<uint64_t, kBlockEntries> all;
  const char* wrong = UnpackBlock(first, form, words, num_words, count, all.data());
  rows = {all[count - 1], true};
  for (uint32_t i = 1; form >= kRepeatsForm && i < count; ++i) {
    rows.distinct &= all[i - 1] < all[i];
  }
  return wrong;
}

}  // namespace sparseagg
