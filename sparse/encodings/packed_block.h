// One block of coo.packed: up to 256 ascending rows as bits. docs/wire_format.md has the grammar
// and an example. This file depends on neither tensors nor messages; sparse/encodings/coo_packed.h
// puts blocks together. Host and device, except the functions that work on whole blocks.
//
//   entry := first:u64 begin:u32 tag:u32      16 bytes, one load of a GPU thread
//            first  the block's first row
//            begin  where its words start, in words after the directory
//            tag    form (bits 0..7) and check (bits 8..31)
//   words := u32 *                            by form:
//            0 + w    w in 0..63: row[i] = row[i-1] + 1 + d[i]: strictly ascending
//            64 + w   w in 0..63: row[i] = row[i-1] + d[i]: rows may repeat
//                     d[i] is the w bits from bit (i-1) * w on, i in 1..count-1, bit b being bit
//                     b % 32 of word b / 32; unused bits are 0
//            128      a bitmap: bit k set is row first + k; bit 0 is set, so is one of the last
//                     word
//   check := the top 24 bits of the 64-bit sum  key(1) + key(2) * low half of first
//            + key(3) * high half of first + key(4) * form + the sum of key(5 + i) * words[i]
//            key(n) := SplitMix64's output function of n * 0x9E3779B97F4A7C15
//
// The check is multilinear hashing (Lemire and Kaser, "Strongly universal string hashing is fast",
// 2014). It is as good as a CRC against random damage, and it is a sum of products, so that
// vectors, numpy and a warp can compute it in any order.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_PACKED_BLOCK_H_
#define SPARSEAGG_SPARSE_ENCODINGS_PACKED_BLOCK_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace sparseagg {

inline constexpr uint32_t kBlockEntries = 256;
inline constexpr uint32_t kPackedWidthMax = 63;  // rows are below 2^63
inline constexpr uint32_t kRepeatsForm = 64;
inline constexpr uint32_t kBitmapForm = 128;
// The largest block: 255 differences of 63 bits. A bitmap has fewer words, or 9 at most.
inline constexpr uint32_t kBlockWordsMax = ((kBlockEntries - 1) * kPackedWidthMax + 31) / 32;

struct BlockEntry {
  uint64_t first;
  uint32_t begin;
  uint32_t tag;

  SPARSEAGG_HOST_DEVICE uint32_t form() const { return tag & 0xFF; }
  SPARSEAGG_HOST_DEVICE uint32_t check() const { return tag >> 8; }
};
static_assert(sizeof(BlockEntry) == 16);

constexpr uint64_t BlocksOf(uint64_t rows) {
  return rows / kBlockEntries + (rows % kBlockEntries != 0 ? 1 : 0);
}

// Words of a block of `count` rows whose differences have `width` bits.
SPARSEAGG_HOST_DEVICE constexpr uint32_t PackedWords(uint32_t count, uint32_t width) {
  return ((count - 1) * width + 31) / 32;
}

SPARSEAGG_HOST_DEVICE constexpr uint64_t SplitMix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}
SPARSEAGG_HOST_DEVICE constexpr uint64_t BlockKey(uint64_t n) {
  return SplitMix64(n * 0x9E3779B97F4A7C15);
}

// The form and size of a block to be packed.
struct PackedForm {
  uint32_t form = 0;
  uint32_t words = 0;
};

// Chooses the smallest form. For differences of one bit it prefers a bitmap, which can be added
// without unpacking, if that takes at most an eighth more words. REQUIRES: 1 <= count <=
// kBlockEntries; rows never descend and are below 2^63.
PackedForm ChoosePackedForm(const uint64_t* rows, uint32_t count);

// Writes plan.words words.
void PackBlock(const uint64_t* rows, uint32_t count, const PackedForm& plan, uint32_t* words);

// The 24 bits of the check. `words` need not be aligned.
uint32_t BlockCheck(uint64_t first, uint32_t form, const void* words, uint32_t num_words);

// Readable bytes that UnpackBlock() needs after a block's words.
inline constexpr size_t kBlockSlackBytes = 16;

// Writes `count` ascending rows. `words` need not be aligned and is followed by kBlockSlackBytes
// readable bytes. Returns null, or a text that says what is wrong with the block; `rows` is
// unspecified then. REQUIRES: first < 2^63 (beyond that, rows may wrap around to small ones), a
// form of the grammar, num_words as the form requires, num_words <= kBlockWordsMax.
const char* UnpackBlock(uint64_t first, uint32_t form, const char* words, uint32_t num_words,
                        uint32_t count, uint64_t* rows);

// Reads a T from memory that need not be aligned.
template <class T>
T LoadAs(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// The last row of a bitmap. REQUIRES: its last word is not 0.
inline uint64_t LastOfBitmap(uint64_t first, const char* words, uint32_t num_words) {
  const auto last_word = LoadAs<uint32_t>(words + size_t{4} * (num_words - 1));
  return first + 32 * uint64_t{num_words} - 1 - static_cast<uint32_t>(std::countl_zero(last_word));
}

// Properties of a block's rows that are found without unpacking it.
struct BlockRows {
  uint64_t last = 0;
  bool distinct = false;  // strictly ascending
};

// A full block is crowded when it has no gaps or is a bitmap of at most this many words.
inline constexpr uint32_t kCrowdedWords = 16;

// Returns true, and sets `last` to the last row, for a full and crowded block that is well-formed
// and agrees with its check. This recognizes most blocks of a crowded tensor, in a fraction of the
// time that InspectBlock() takes. Returns false for all other blocks, valid ones too; `last` is
// unspecified then. `words` need not be aligned.
bool IsCrowdedBlock(const BlockEntry& entry, const char* words, uint64_t num_words, uint64_t& last);

// Checks what UnpackBlock() checks and sets `rows`, without unpacking the forms of crowded blocks.
const char* InspectBlock(uint64_t first, uint32_t form, const char* words, uint32_t num_words,
                         uint32_t count, BlockRows& rows);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_PACKED_BLOCK_H_
