// The wire form of the slots of a partial aggregate: blocks of up to 64 exact numbers. A block is a
// pure function of its numbers, so equal states have equal bytes, whatever windows, side tables and
// merges led to them.
//
//   block := u16 form, body           little-endian
//     0            every number is zero; no body
//     1 .. 272     i16 lsb, then each number as a two's complement of `form` bytes, in units of
//                  2^lsb
//     65534        each number as u8 n, then n digits: u8 position, i32 digit (exact_number.h)
//     65535        each number as a value of the value type ("raw")
//
// The writer chooses the shortest form; of equally long ones raw, then fixed. lsb is the largest
// that makes all numbers whole, and the number of bytes the smallest with |x| < 2^(8 * bytes - 1).
// min and max have only the forms 0 and raw, and may have infinite values.
#ifndef SPARSEAGG_SPARSE_PARTIALS_BLOCKS_H_
#define SPARSEAGG_SPARSE_PARTIALS_BLOCKS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "sparse/partials/exact_number.h"
#include "sparse/types.h"

namespace sparseagg {

inline constexpr size_t kBlockSlots = 64;

// The forms that are no number of bytes.
inline constexpr uint16_t kZerosForm = 0;
inline constexpr uint16_t kDigitsForm = 0xFFFE;
inline constexpr uint16_t kRawForm = 0xFFFF;

// Numbers reach up to 2^kNumberTop. An honest sum stays far below it, and 2^30 partial aggregates
// of such numbers still fit a WideInteger.
inline constexpr int kNumberTop = 1070;

// What the numbers of a block are.
struct BlockKind {
  std::optional<ValueType> raw;  // the type of raw values; nullopt: this form is not used
  bool only_raw = false;         // min and max, whose slots are values
};

// Appends the block. REQUIRES: at most kBlockSlots numbers; with only_raw each is of the type.
void WriteBlock(std::span<const ExactNumber> numbers, const BlockKind& kind, std::string& out);

// Takes a block of numbers.size() numbers from the front of `bytes`. Returns INVALID_ARGUMENT
// (INVALID_PARTIAL), with a message that begins in the middle of a sentence, for a block that
// WriteBlock() does not write.
absl::Status ReadBlock(std::string_view& bytes, const BlockKind& kind,
                       std::span<ExactNumber> numbers);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_BLOCKS_H_
