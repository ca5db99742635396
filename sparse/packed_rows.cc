#include "sparse/packed_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sparse/narrow_rows.h"

namespace sparseagg {
namespace {

template <class T>
T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Differences of one bit, eight at a time, as a bitmap: 0 is "the next row", 1 "the one after it".
struct SpreadTable {
  uint16_t bits[256];
  uint8_t sizes[256];  // of `bits`
  constexpr SpreadTable() : bits(), sizes() {
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
constexpr SpreadTable kSpread;

}  // namespace

PackedRows::PackedRows(const CooView& entries)
    : directory_(entries.packed_rows), nnz_(entries.nnz), blocks_(BlocksOf(entries.nnz)) {
  words_ = directory_ + blocks_ * sizeof(BlockEntry);
  total_words_ = static_cast<uint32_t>((entries.packed_rows_bytes - (words_ - directory_)) / 4);
}

BlockEntry PackedRows::entry(uint64_t b) const {
  return Load<BlockEntry>(directory_ + b * sizeof(BlockEntry));
}

PackedRows::Block PackedRows::block(uint64_t b) const {
  const BlockEntry own = entry(b);
  const uint32_t end = b + 1 < blocks_ ? entry(b + 1).begin : total_words_;
  const uint64_t begin = b * kBlockEntries;
  return {.first = own.first,
          .form = own.form(),
          .num_words = end - own.begin,
          .words = words_ + size_t{4} * own.begin,
          .begin = begin,
          .count = static_cast<uint32_t>(std::min<uint64_t>(kBlockEntries, nnz_ - begin))};
}

void PackedRows::Unpack(const Block& block, uint64_t* rows) {
  UnpackBlock(block.first, block.form, block.words, block.num_words, block.count, rows);
}

std::optional<PackedRows::Bits> PackedRows::BitsOf(const Block& block, BitsBuffer& buffer) {
  if (block.form == kBitmapForm) {
    return Bits{block.first, LastOfBitmap(block.first, block.words, block.num_words),
                reinterpret_cast<const unsigned char*>(block.words), block.count};
  }
  if (block.form > 1) return std::nullopt;
  if (block.form == 0) {
    buffer.fill(0xFF);
    const uint32_t last = block.count - 1;
    buffer[last / 8] = static_cast<unsigned char>((2u << last % 8) - 1);
    return Bits{block.first, block.first + block.count - 1, buffer.data(), block.count};
  }
  buffer.fill(0);
  buffer[0] = 1;
  size_t size = 1;  // in bits
  const uint32_t differences = block.count - 1;
  for (uint32_t i = 0; i < differences; i += 8) {
    const uint32_t left = std::min(8u, differences - i);  // bits beyond them mean nothing
    const uint32_t byte = static_cast<unsigned char>(block.words[i / 8]) & ((1u << left) - 1);
    const uint32_t own = kSpread.sizes[byte] - (8 - left);
    const uint64_t bits = kSpread.bits[byte] & ((1u << own) - 1);
    const uint64_t joined = Load<uint64_t>(buffer.data() + size / 8) | bits << (size % 8);
    std::memcpy(buffer.data() + size / 8, &joined, sizeof(joined));
    size += own;
  }
  return Bits{block.first, block.first + size - 1, buffer.data(), block.count};
}

uint64_t PackedRows::LowerBound(uint64_t row) const {
  uint64_t begin = 0;  // blocks before it begin below `row`
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
  if (entries.packed_rows != nullptr) return PackedRows(entries).RowOf(entry);
  if (entries.narrow_rows != nullptr) return entries.narrow_rows->RowOf(entry);
  return entries.indices[entry];
}

}  // namespace sparseagg
