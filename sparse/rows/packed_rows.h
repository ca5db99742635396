// The rows of an update as coo.packed encodes them, already validated by its decoder. They are
// unpacked where they are needed, in blocks of 256, and take half a bit to a few bits per entry
// instead of 64.
#ifndef SPARSEAGG_SPARSE_ROWS_PACKED_ROWS_H_
#define SPARSEAGG_SPARSE_ROWS_PACKED_ROWS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "sparse/encodings/packed_block.h"
#include "sparse/types.h"

namespace sparseagg {

// Immutable; does not own the bytes.
class PackedRows {
 public:
  // REQUIRES: entries.rows is packed.
  explicit PackedRows(const CooView& entries);

  // A block, and the position of its entries in the update.
  struct Block {
    uint64_t first = 0;  // first row
    uint32_t form = 0;
    uint32_t num_words = 0;
    const char* words = nullptr;
    uint64_t begin = 0;  // first entry
    uint32_t count = 0;  // number of entries
  };

  // Rows as a bitmap: bit k of `bytes` is set if row first + k is in it, for rows up to `last`,
  // inclusive.
  struct Bits {
    uint64_t first = 0;
    uint64_t last = 0;
    const unsigned char* bytes = nullptr;  // [(last - first) / 8 + 1]; 8 more are readable
    uint32_t count = 0;                    // number of rows
  };
  using BitsBuffer = std::array<unsigned char, 2 * kBlockEntries / 8 + 8>;

  uint64_t blocks() const { return blocks_; }
  Block block(uint64_t b) const {
    const BlockEntry own = entry(b);
    const uint32_t end = b + 1 < blocks_ ? entry(b + 1).begin : total_words_;
    return {.first = own.first,
            .form = own.form(),
            .num_words = end - own.begin,
            .words = words_ + size_t{4} * own.begin,
            .begin = b * kBlockEntries,
            .count =
                static_cast<uint32_t>(std::min<uint64_t>(kBlockEntries, nnz_ - b * kBlockEntries))};
  }
  // Writes the block's rows: [block.count].
  static void Unpack(const Block& block, uint64_t* rows);

  // Returns the block as a bitmap, if it is one or is crowded enough to be converted directly. The
  // bitmap may lie in `buffer`.
  static std::optional<Bits> BitsOf(const Block& block, BitsBuffer& buffer) {
    if (block.form == kBitmapForm) {
      return Bits{block.first, LastOfBitmap(block.first, block.words, block.num_words),
                  reinterpret_cast<const unsigned char*>(block.words), block.count};
    }
    if (block.form == 0) return FullBitmap(block.first, block.count);
    if (block.form == 1) return ConvertToBitmap(block, buffer);
    return std::nullopt;
  }

  // Returns a block such that no block before it has a row at or above `row`. REQUIRES: blocks() >
  // 0.
  uint64_t LowerBound(uint64_t row) const;
  // Returns the row of an entry; unpacks its block.
  uint64_t RowOf(uint64_t entry) const;
  // Writes all rows: [nnz].
  void UnpackAll(uint64_t* rows) const;

 private:
  BlockEntry entry(uint64_t b) const {
    return LoadAs<BlockEntry>(directory_ + b * sizeof(BlockEntry));
  }
  // Returns the bitmap of a block without gaps.
  static Bits FullBitmap(uint64_t first, uint32_t count);
  // Converts a block of one-bit differences to a bitmap. REQUIRES: it has the words that it needs.
  static Bits ConvertToBitmap(const Block& block, BitsBuffer& buffer);

  const char* directory_;
  const char* words_;
  uint64_t nnz_;
  uint64_t blocks_;
  uint32_t total_words_;
};

// Returns the row of an entry, in whichever form the rows are stored.
uint64_t RowOf(const CooView& entries, uint64_t entry);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_PACKED_ROWS_H_
