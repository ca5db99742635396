#include "sparse/rows/packed_indices.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sparse/encodings/packed_block.h"

namespace sparseagg {

PackedIndices::PackedIndices(const RowIds& rows) : rows_(rows) {
  const size_t blocks = BlocksOf(rows.size());
  begins_.reserve(blocks + 1);
  forms_.reserve(blocks);
  std::array<uint64_t, kBlockEntries> buffer;
  uint64_t begin = 0;
  begins_.push_back(0);
  for (size_t block = 0; block < blocks; ++block) {
    const std::span<const uint64_t> own = RowsOf(block, buffer.data());
    const PackedForm plan = ChoosePackedForm(own.data(), static_cast<uint32_t>(own.size()));
    begin += plan.words;
    begins_.push_back(static_cast<uint32_t>(begin));
    forms_.push_back(static_cast<uint8_t>(plan.form));
  }
  fits_ = begin <= UINT32_MAX;
}

uint64_t PackedIndices::directory_bytes() const { return forms_.size() * sizeof(BlockEntry); }

// Returns the block's rows: a view of the stored ones, or generated in `buffer`, [kBlockEntries].
std::span<const uint64_t> PackedIndices::RowsOf(size_t block, uint64_t* buffer) const {
  const uint64_t begin = block * kBlockEntries;
  return rows_.Piece(begin, std::min<uint64_t>(rows_.size() - begin, kBlockEntries), buffer);
}

void PackedIndices::Read(uint64_t offset, size_t n, char* out) const {
  std::array<uint32_t, kBlockWordsMax> words;
  std::array<uint64_t, kBlockEntries> buffer;
  while (n > 0) {
    const bool in_directory = offset < directory_bytes();
    size_t block = offset / sizeof(BlockEntry);
    uint64_t piece_begin = block * sizeof(BlockEntry);
    if (!in_directory) {
      const uint64_t word = (offset - directory_bytes()) / 4;
      // Blocks without words begin where the next one does; this is the last of those that begin
      // here.
      block = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), word) -
                                  begins_.begin()) -
              1;
      piece_begin = directory_bytes() + uint64_t{begins_[block]} * 4;
    }
    const std::span<const uint64_t> own = RowsOf(block, buffer.data());
    const PackedForm plan = {forms_[block], begins_[block + 1] - begins_[block]};
    PackBlock(own.data(), static_cast<uint32_t>(own.size()), plan, words.data());
    const uint32_t check = BlockCheck(own[0], plan.form, words.data(), plan.words);
    const BlockEntry entry{own[0], begins_[block], plan.form | check << 8};
    const char* piece = in_directory ? reinterpret_cast<const char*>(&entry)
                                     : reinterpret_cast<const char*>(words.data());
    const uint64_t piece_bytes = in_directory ? sizeof(entry) : uint64_t{plan.words} * 4;
    const uint64_t skip = offset - piece_begin;
    const size_t part = static_cast<size_t>(std::min<uint64_t>(n, piece_bytes - skip));
    std::memcpy(out, piece + skip, part);
    out += part;
    offset += part;
    n -= part;
  }
}

}  // namespace sparseagg
