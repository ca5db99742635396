#include <cstring>

#include "sparse/streaming.h"

namespace sparseagg {

bool StreamFloats(const char* from, uint64_t count, float* to) {
  std::memcpy(to, from, count * sizeof(float));
  return count == 0;
}

void StoreLinesNonTemporal(const void* from, uint64_t lines, void* to) {
  std::memcpy(to, from, lines * 64);
}

void FinishNonTemporalStores() {}

template <class Index, class Row>
void StreamRows(const char* from, uint64_t count, uint64_t highest, uint64_t last, Row* rows,
                RowFlags& flags) {
  CopyRows<Index>(from, count, highest, last, rows, flags);
}

template void StreamRows<int32_t>(const char*, uint64_t, uint64_t, uint64_t, uint64_t*, RowFlags&);
template void StreamRows<int64_t>(const char*, uint64_t, uint64_t, uint64_t, uint64_t*, RowFlags&);
template void StreamRows<int32_t>(const char*, uint64_t, uint64_t, uint64_t, uint16_t*, RowFlags&);
template void StreamRows<int64_t>(const char*, uint64_t, uint64_t, uint64_t, uint16_t*, RowFlags&);

}  // namespace sparseagg
