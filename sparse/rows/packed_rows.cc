#include "sparse/rows/packed_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sparse/rows/narrow_rows.h"

namespace sparseagg {
namespace {

// Converts eight one-bit differences at a time to a bitmap: 0 is "the next row", 1 "the one after
// it".
struct BitmapTable {
  uint16_t bits[256];
  uint8_t sizes[256];  // number of bits in `bits`
  constexpr BitmapTable() : bits(), sizes() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint8_t& size = sizes[byte];
      for (uint32_t i = 0; i < 8; ++i) {
        size = static_cast<uint8_t>(size + (byte >> i & 1));
        bits[byte] |= static_cast<uint16_t>(1u << size);
        ++size;
      }
    }
  }
};
constexpr BitmapTable kBitmapTable;

constexpr auto kAllBits = [] {
  std::array<unsigned char, kBlockEntries / 8 + 8> bytes{};
  bytes.fill(0xFF);
  return bytes;
}();

}  // namespace

PackedRows::PackedRows(const CooView& entries)
    : directory_(entries.rows.packed().data()), nnz_(entries.nnz), blocks_(BlocksOf(entries.nnz)) {
  const uint64_t directory_bytes = blocks_ * sizeof(BlockEntry);
  words_ = directory_ + directory_bytes;
  total_words_ = static_cast<uint32_t>((entries.rows.packed().size() - directory_bytes) / 4);
}

void PackedRows::Unpack(const Block& block, uint64_t* rows) {
  UnpackBlock(block.first, block.form, block.words, block.num_words, block.count, rows);
}

PackedRows::Bits PackedRows::FullBitmap(uint64_t first, uint32_t count) {
  return {first, first + count - 1, kAllBits.data(), count};
}

PackedRows::Bits PackedRows::ConvertToBitmap(const Block& block, BitsBuffer& buffer) {
  unsigned char* out = buffer.data();
  uint64_t pending = 1;  // the next bits of the output, `filled` of them
  uint32_t filled = 1;
  const uint32_t differences = block.count - 1;
  for (uint32_t i = 0; i < differences; i += 8) {
    const uint32_t left = std::min(8u, differences - i);  // further bits are unused
    const uint32_t byte = static_cast<unsigned char>(block.words[i / 8]) & ((1u << left) - 1);
    const uint32_t own = kBitmapTable.sizes[byte] - (8 - left);
    const uint64_t bits = kBitmapTable.bits[byte] & ((1u << own) - 1);
    pending |= bits << filled;
    filled += own;
    std::memcpy(out, &pending, sizeof(pending));
    out += filled / 8;
    pending >>= filled / 8 * 8;
    filled %= 8;
  }
  std::memcpy(out, &pending, sizeof(pending));
  const auto size = static_cast<uint64_t>(out - buffer.data()) * 8 + filled;
  return Bits{block.first, block.first + size - 1, buffer.data(), block.count};
}

uint64_t PackedRows::LowerBound(uint64_t row) const {
  uint64_t begin = 0;  // all blocks before it begin below `row`
  uint64_t end = blocks_;
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    if (entry(middle).first < row) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin == 0 ? 0 : begin - 1;
}

uint64_t PackedRows::RowOf(uint64_t entry) const {
  std::array<uint64_t, kBlockEntries> rows;
  Unpack(block(entry / kBlockEntries), rows.data());
  return rows[entry % kBlockEntries];
}

void PackedRows::UnpackAll(uint64_t* rows) const {
  for (uint64_t b = 0; b < blocks_; ++b) Unpack(block(b), rows + b * kBlockEntries);
}

uint64_t RowOf(const CooView& entries, uint64_t entry) {
  if (!entries.rows.packed().empty()) return PackedRows(entries).RowOf(entry);
  if (entries.rows.narrow() != nullptr) return entries.rows.narrow()->RowOf(entry);
  return entries.rows.wide()[entry];
}

}  // namespace sparseagg
