// The tests' version of cuda/kernels/sort/device_sort.cu, which CUB has for devices only.
#include "cuda/kernels/sort/device_sort.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/cuda/emulator/runtime.h"

namespace sparseagg::gpu {
namespace {

uint64_t Bits(uint64_t word, int begin_bit, int end_bit) {
  const uint64_t below = end_bit >= 64 ? word : word & ((uint64_t{1} << end_bit) - 1);
  return begin_bit >= 64 ? 0 : below >> begin_bit;
}

}  // namespace

void SortWords(Queue& queue, DeviceArray<uint64_t>& words, uint32_t size, int begin_bit,
               int end_bit) {
  queue.Calls("cub::DeviceRadixSort::SortKeys");
  sparseagg::testing::RunQueued(queue.cuda_stream());
  // Into another array, as the device may.
  DeviceArray<uint64_t> other(queue, size);
  std::copy(words.data(), words.data() + size, other.data());
  std::stable_sort(other.data(), other.data() + size, [&](uint64_t a, uint64_t b) {
    return Bits(a, begin_bit, end_bit) < Bits(b, begin_bit, end_bit);
  });
  std::swap(words, other);
}

void SortRows(Queue& queue, DeviceArray<uint64_t>& rows, DeviceArray<uint32_t>& entries,
              uint32_t size, int end_bit) {
  queue.Calls("cub::DeviceRadixSort::SortPairs");
  sparseagg::testing::RunQueued(queue.cuda_stream());
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return Bits(rows.data()[a], 0, end_bit) < Bits(rows.data()[b], 0, end_bit);
  });
  DeviceArray<uint64_t> other_rows(queue, size);
  DeviceArray<uint32_t> other_entries(queue, size);
  for (uint32_t i = 0; i < size; ++i) {
    other_rows.data()[i] = rows.data()[order[i]];
    other_entries.data()[i] = entries.data()[order[i]];
  }
  std::swap(rows, other_rows);
  std::swap(entries, other_entries);
}

}  // namespace sparseagg::gpu
