#include "sparse/rows/narrow_rows.h"

#include <algorithm>
#include <new>

#include "base/host_vector.h"
#include "sparse/streaming.h"

namespace sparseagg {

void NarrowRows::Deleter::operator()(void* memory) const { FreeHost(memory); }

std::unique_ptr<NarrowRows> NarrowRows::Make(uint64_t num_rows, uint64_t nnz) {
  std::unique_ptr<NarrowRows> rows(new (std::nothrow) NarrowRows(num_rows, nnz));
  if (rows == nullptr) return nullptr;
  rows->rows_.reset(static_cast<uint16_t*>(AllocateHost(nnz * sizeof(uint16_t))));
  rows->begins_.reset(static_cast<uint32_t*>(AllocateHost(rows->segments() * sizeof(uint32_t))));
  if (rows->rows_ == nullptr || rows->begins_ == nullptr) return nullptr;
  return rows;
}

template <class Index>
bool NarrowRows::Append(const char* from, uint64_t count, uint64_t last, RowFlags& flags) {
  RowFlags now;
  StreamRows<Index>(from, count, num_rows_ - 1, last, rows_.get() + size_, now);
  if (!now.all_in_range() || now.order() == EntryOrder::kUnsorted) return false;
  flags.not_ascending |= now.not_ascending;
  RecordSegmentBegins<Index>(from, count);
  size_ += count;
  return true;
}

// Records where the segments begin that have their first row among these, or are skipped by them.
template <class Index>
void NarrowRows::RecordSegmentBegins(const char* from, uint64_t count) {
  const auto highest = static_cast<uint64_t>(IndexAt<Index>(from, count - 1));
  uint64_t at = 0;
  for (; next_segment_ <= highest >> kSegmentBits; ++next_segment_) {
    const uint64_t row = next_segment_ << kSegmentBits;
    uint64_t end = count;
    while (at < end) {  // a binary search for the first index at or above `row`
      const uint64_t middle = at + (end - at) / 2;
      if (static_cast<uint64_t>(IndexAt<Index>(from, middle)) < row) {
        at = middle + 1;
      } else {
        end = middle;
      }
    }
    begins_[next_segment_] = static_cast<uint32_t>(size_ + at);
  }
}

NarrowRows::Segment NarrowRows::segment(uint64_t s) const {
  const auto begin = [this](uint64_t t) { return t < next_segment_ ? begins_[t] : size_; };
  return {rows_.get() + begin(s), begin(s), begin(s + 1)};
}

bool NarrowRows::Widen() {
  std::unique_ptr<uint64_t[], Deleter> wide(
      static_cast<uint64_t*>(AllocateHost(nnz_ * sizeof(uint64_t))));
  if (wide == nullptr) return false;
  for (uint64_t s = 0; s < next_segment_; ++s) {
    const Segment part = segment(s);
    for (uint64_t e = part.begin; e < part.end; ++e) wide[e] = (s << kSegmentBits) + rows_[e];
  }
  wide_ = std::move(wide);
  rows_.reset();
  begins_.reset();
  return true;
}

void UseWideRows(MutableCooView& entries) {
  const NarrowRows* const narrow = entries.rows.narrow();
  if (narrow != nullptr && narrow->wide() != nullptr) entries.rows = narrow->wide();
}

uint64_t NarrowRows::RowOf(uint64_t entry) const {
  if (wide_ != nullptr) return wide_[entry];
  const uint32_t* after = std::upper_bound(begins_.get(), begins_.get() + next_segment_, entry);
  const auto s = static_cast<uint64_t>(after - begins_.get()) - 1;
  return (s << kSegmentBits) + rows_[entry];
}

uint64_t NarrowRows::bytes() const {
  if (wide_ != nullptr) return nnz_ * sizeof(uint64_t);
  return nnz_ * sizeof(uint16_t) + segments() * sizeof(uint32_t);
}

template bool NarrowRows::Append<int32_t>(const char*, uint64_t, uint64_t, RowFlags&);
template bool NarrowRows::Append<int64_t>(const char*, uint64_t, uint64_t, RowFlags&);

}  // namespace sparseagg
