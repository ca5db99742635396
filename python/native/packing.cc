#include "python/native/packing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "cpu/state/key_sort.h"

namespace sparseagg::native {
namespace {

constexpr uint64_t kChunk = 16 * kBlockEntries;  // rows that are looked at together, in cache
constexpr uint64_t kBuckets = 1 << 16;           // of the histogram
constexpr uint64_t kPieceWords = 1 << 18;
// Fewer entries in a range would need too many scans.
constexpr uint64_t kRangeEntriesMin = 1 << 18;
constexpr uint64_t kRangeEntriesMax = 1 << 22;
constexpr uint64_t kRangesMax = 64;  // each takes a scan of all indices

// std::bit_width() returns an int only from GCC 13 on.
int BitWidth(uint64_t value) { return static_cast<int>(std::bit_width(value)); }

template <class Index>
void Flatten(const IndexArray& indices, const std::vector<int64_t>& shape, uint64_t begin,
             uint64_t count, uint64_t* rows) {
  const auto* from = static_cast<const Index*>(indices.data) + begin * indices.sparse_dim;
  for (uint64_t e = 0; e < count; ++e) {
    auto row = static_cast<uint64_t>(*from++);
    for (uint32_t d = 1; d < indices.sparse_dim; ++d) {
      row = row * static_cast<uint64_t>(shape[d]) + static_cast<uint64_t>(*from++);
    }
    rows[e] = row;
  }
}

template <size_t kBytes>
void Gather(const char* values, std::span<const uint64_t> keys, uint64_t mask, char* out) {
  for (const uint64_t key : keys) {
    std::memcpy(out, values + (key & mask) * kBytes, kBytes);
    out += kBytes;
  }
}

}  // namespace

Packing::Packing(const IndexArray& indices)
    : indices_(indices),
      shape_(indices.dense_shape, indices.dense_shape + indices.sparse_dim),
      buffer_(kChunk),
      position_bits_(BitWidth(indices.nnz)) {
  waiting_.reserve(kBlockEntries);
  entries_.reserve(BlocksOf(indices.nnz));
}

std::unique_ptr<Packing> Packing::Make(const IndexArray& indices, uint64_t bytes_max) {
  std::unique_ptr<Packing> packing(new Packing(indices));
  if (packing->PackInOrder(bytes_max)) return packing;
  if (!packing->descends_) return nullptr;
  // Two thirds are for sorting, the rest for the packed indices.
  const uint64_t entries_max = std::min(bytes_max / 3 * 2 / sizeof(uint64_t), kRangeEntriesMax);
  if (entries_max < std::min(indices.nnz, kRangeEntriesMin)) return nullptr;
  packing.reset(new Packing(indices));
  if (!packing->MakeRanges(entries_max)) return nullptr;
  const uint64_t sort_bytes = packing->keys_.size() * sizeof(uint64_t);
  return packing->PackSorted(bytes_max - std::min(bytes_max, sort_bytes)) ? std::move(packing)
                                                                          : nullptr;
}

uint64_t Packing::packed_bytes() const {
  return entries_.size() * sizeof(BlockEntry) + uint64_t{num_words_} * sizeof(uint32_t);
}

void Packing::TakePacked(char* out) {
  std::memcpy(out, entries_.data(), entries_.size() * sizeof(BlockEntry));
  out += entries_.size() * sizeof(BlockEntry);
  for (; !words_.empty(); words_.pop_front()) {
    std::memcpy(out, words_.front().data(), words_.front().size() * sizeof(uint32_t));
    out += words_.front().size() * sizeof(uint32_t);
  }
}

const uint64_t* Packing::Rows(uint64_t begin, uint64_t count) {
  (indices_.is_i32 ? Flatten<int32_t> : Flatten<int64_t>)(indices_, shape_, begin, count,
                                                          buffer_.data());
  return buffer_.data();
}

void Packing::AppendBlock(const uint64_t* rows, uint32_t count) {
  const PackedForm plan = ChoosePackedForm(rows, count);
  if (words_.empty() || words_.back().size() + plan.words > kPieceWords) {
    words_.emplace_back().reserve(kPieceWords);
  }
  std::vector<uint32_t>& piece = words_.back();
  const size_t at = piece.size();
  piece.resize(at + plan.words);
  PackBlock(rows, count, plan, piece.data() + at);
  const uint32_t check = BlockCheck(*rows, plan.form, piece.data() + at, plan.words);
  entries_.push_back({*rows, num_words_, plan.form | check << 8});
  num_words_ += plan.words;
}

bool Packing::Append(const uint64_t* rows, uint64_t count, uint64_t bytes_max) {
  while (count > 0) {
    if (waiting_.empty() && count >= kBlockEntries) {
      AppendBlock(rows, kBlockEntries);
      rows += kBlockEntries;
      count -= kBlockEntries;
      continue;
    }
    const uint64_t taken = std::min<uint64_t>(count, kBlockEntries - waiting_.size());
    waiting_.insert(waiting_.end(), rows, rows + taken);
    rows += taken;
    count -= taken;
    if (waiting_.size() < kBlockEntries) continue;
    AppendBlock(waiting_.data(), kBlockEntries);
    waiting_.clear();
  }
  const uint64_t words_max = std::numeric_limits<uint32_t>::max() - kChunk * kBlockWordsMax;
  return packed_bytes() <= bytes_max && num_words_ <= words_max;
}

bool Packing::PackInOrder(uint64_t bytes_max) {
  uint64_t last = 0;
  for (uint64_t begin = 0; begin < indices_.nnz; begin += kChunk) {
    const uint64_t count = std::min(kChunk, indices_.nnz - begin);
    const uint64_t* const rows = Rows(begin, count);
    uint64_t descending = rows[0] < last;
    for (uint64_t e = 1; e < count; ++e) descending |= rows[e] < rows[e - 1];
    descends_ = descending != 0;
    if (descends_ || !Append(rows, count, bytes_max)) return false;
    last = rows[count - 1];
  }
  if (!waiting_.empty()) AppendBlock(waiting_.data(), static_cast<uint32_t>(waiting_.size()));
  return packed_bytes() <= bytes_max;
}

bool Packing::MakeRanges(uint64_t entries_max) {
  uint64_t num_rows = 1;
  for (const int64_t limit : shape_) num_rows *= static_cast<uint64_t>(limit);
  const int shift = std::max(0, BitWidth(num_rows - 1) - BitWidth(kBuckets - 1));
  const uint64_t bucket_rows = uint64_t{1} << shift;
  std::vector<uint64_t> counts((num_rows - 1) / bucket_rows + 1);
  for (uint64_t begin = 0; begin < indices_.nnz; begin += kChunk) {
    const uint64_t count = std::min(kChunk, indices_.nnz - begin);
    const uint64_t* const rows = Rows(begin, count);
    for (uint64_t e = 0; e < count; ++e) ++counts[std::min(rows[e] >> shift, counts.size() - 1)];
  }
  const uint64_t rows_max = uint64_t{1} << (64 - position_bits_);  // so that a key has 64 bits
  if (bucket_rows > rows_max) return false;
  uint64_t entries_of_largest = 0;
  for (uint64_t bucket = 0; bucket < counts.size(); ++bucket) {
    const uint64_t entries = counts[bucket];
    if (entries > entries_max) return false;
    if (ranges_.empty() || ranges_.back().entries + entries > entries_max ||
        ranges_.back().rows + bucket_rows > rows_max) {
      const uint64_t begin = ranges_.empty() ? 0 : ranges_.back().begin + ranges_.back().entries;
      ranges_.push_back({.first_row = bucket * bucket_rows, .begin = begin});
    }
    ranges_.back().rows += bucket_rows;
    ranges_.back().entries += entries;
    entries_of_largest = std::max(entries_of_largest, ranges_.back().entries);
  }
  std::erase_if(ranges_, [](const Range& range) { return range.entries == 0; });
  if (ranges_.size() > kRangesMax) return false;
  keys_.resize(entries_of_largest + 1);  // one more, to which entries of other ranges are written
  return true;
}

bool Packing::PackSorted(uint64_t bytes_max) {
  std::array<uint64_t, kChunk> rows;
  for (const Range& range : ranges_) {
    Sort(range);
    for (uint64_t begin = 0; begin < range.entries; begin += kChunk) {
      const uint64_t count = std::min(kChunk, range.entries - begin);
      for (uint64_t e = 0; e < count; ++e) {
        rows[e] = range.first_row + (keys_[begin + e] >> position_bits_);
      }
      if (!Append(rows.data(), count, bytes_max)) return false;
    }
  }
  if (!waiting_.empty()) AppendBlock(waiting_.data(), static_cast<uint32_t>(waiting_.size()));
  return packed_bytes() <= bytes_max;
}

void Packing::Sort(const Range& range) {
  if (sorted_ == &range) return;
  sorted_ = &range;
  uint64_t* const keys = keys_.data();
  uint64_t found = 0;
  for (uint64_t begin = 0; begin < indices_.nnz; begin += kChunk) {
    const uint64_t count = std::min(kChunk, indices_.nnz - begin);
    const uint64_t* const rows = Rows(begin, count);
    for (uint64_t e = 0; e < count; ++e) {  // without a branch, which would be mispredicted
      const uint64_t row = rows[e] - range.first_row;
      keys[found] = row << position_bits_ | (begin + e);
      found += row < range.rows && found < range.entries ? 1 : 0;
    }
  }
  SortKeys(keys, range.entries);
}

void Packing::CopyValues(const char* values, uint64_t row_bytes, uint64_t begin, uint64_t end,
                         char* out) {
  const std::lock_guard lock(mutex_);
  const uint64_t mask = (uint64_t{1} << position_bits_) - 1;
  auto range = std::ranges::upper_bound(ranges_, begin, {}, &Range::begin) - 1;
  for (; begin < end; ++range) {
    Sort(*range);
    const uint64_t until = std::min(end, range->begin + range->entries);
    const auto keys = std::span(keys_).subspan(begin - range->begin, until - begin);
    if (row_bytes == 4) {
      Gather<4>(values, keys, mask, out);
    } else if (row_bytes == 8) {
      Gather<8>(values, keys, mask, out);
    } else {
      char* to = out;
      for (const uint64_t key : keys) {
        std::memcpy(to, values + (key & mask) * row_bytes, row_bytes);
        to += row_bytes;
      }
    }
    out += keys.size() * row_bytes;
    begin = until;
  }
}

}  // namespace sparseagg::native
