// The rows of an update as coo.packed has them, found good by its decoder: 256 rows at a time come
// out of them, where they are needed. They take half a bit to a few bits an entry, in place of 64.
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
  // REQUIRES: entries.packed_rows is not null.
  explicit PackedRows(const CooView& entries);

  // A block, and where its entries stand.
  struct Block {
    uint64_t first = 0;  // row
    uint32_t form = 0;
    uint32_t num_words = 0;
    const char* words = nullptr;
    uint64_t begin = 0;  // of its entries among those of the update
    uint32_t count = 0;  // of them
  };

  // Rows as a bitmap: bit k of `bytes` says whether it has row first + k, up to and with `last`.
  struct Bits {
    uint64_t first = 0;
    uint64_t last = 0;
    const unsigned char* bytes = nullptr;  // [(last - first) / 8 + 1]; 8 more can be read
    uint32_t count = 0;                    // of rows
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
            .count = EntriesOf(b, 1)};
  }
  // Of `blocks` blocks from `b` on.
  uint32_t EntriesOf(uint64_t b, uint64_t blocks) const {
    return static_cast<uint32_t>(std::min(blocks * kBlockEntries, nnz_ - b * kBlockEntries));
  }
  // Writes the block's rows.
  static void Unpack(const Block& block, uint64_t* rows);

  // The block as a bitmap, if it is one or is crowded enough to become one at once: in `buffer`.
  static std::optional<Bits> BitsOf(const Block& block, BitsBuffer& buffer) {
    if (block.form == kBitmapForm) {
      return Bits{block.first, LastOfBitmap(block.first, block.words, block.num_words),
                  reinterpret_cast<const unsigned char*>(block.words), block.count};
    }
    if (block.form == 0) return AllOf(block.first, block.count);
    if (block.form == 1) return Spread(block, buffer);
    return std::nullopt;
  }

  // How many blocks from `b` on have all rows from the first of them on, below `end`: 0 if block b
  // has gaps. At most kRunBlocksMax.
  uint64_t RunLength(uint64_t b, uint64_t end) const {
    return entry(b).form() == 0 ? RunFrom(b, end) : 0;
  }
  // `count` rows from `first` on. REQUIRES: those of a run.
  static Bits AllOf(uint64_t first, uint32_t count);
  static constexpr uint64_t kRunBlocksMax = 32;

  // No block before this one has rows from `row` on. REQUIRES: blocks() > 0.
  uint64_t LowerBound(uint64_t row) const;
  uint64_t RowOf(uint64_t entry) const;
  // Writes all rows: [nnz].
  void UnpackAll(uint64_t* rows) const;

 private:
  BlockEntry entry(uint64_t b) const {
    return LoadAs<BlockEntry>(directory_ + b * sizeof(BlockEntry));
  }
  // RunLength() where block b's form is that of one without gaps.
  uint64_t RunFrom(uint64_t b, uint64_t end) const;
  // A block of differences of one bit. REQUIRES: that it has the words it needs.
  static Bits Spread(const Block& block, BitsBuffer& buffer);

  const char* directory_;
  const char* words_;
  uint64_t nnz_;
  uint64_t blocks_;
  uint32_t total_words_;
};

// The row of an entry, however the rows are kept.
uint64_t RowOf(const CooView& entries, uint64_t entry);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_PACKED_ROWS_H_
