// In and out: words [size], or rows [size] and entries [size].
//
// CUB's least-significant-digit radix sort (one pass reads and writes everything, 8 bits a pass):
// 16 bytes a word, 24 a pair and pass. Words alone are about three times faster than pairs, since
// the pair kernel is bound by shared memory (measured by CUB's authors, cccl#3611 and #3626): that
// is why callers pack. 32-bit sizes: CUB then holds more items in each thread.
#include <cstddef>
#include <cub/device/device_radix_sort.cuh>
#include <utility>

#include "cuda/kernels/sort/device_sort.h"

namespace sparseagg::gpu {

void SortWords(Queue& queue, DeviceArray<uint64_t>& words, uint32_t size, int begin_bit,
               int end_bit) {
  DeviceArray<uint64_t> other(queue, size);
  cub::DoubleBuffer<uint64_t> keys(words.data(), other.data());
  size_t bytes = 0;
  queue.Check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, size, begin_bit, end_bit,
                                             queue.cuda_stream()),
              "SortKeys");
  DeviceArray<std::byte> memory(queue, bytes);
  queue.Calls("cub::DeviceRadixSort::SortKeys");
  queue.Check(cub::DeviceRadixSort::SortKeys(memory.data(), bytes, keys, size, begin_bit, end_bit,
                                             queue.cuda_stream()),
              "SortKeys");
  if (keys.Current() != words.data()) std::swap(words, other);
}

void SortRows(Queue& queue, DeviceArray<uint64_t>& rows, DeviceArray<uint32_t>& entries,
              uint32_t size, int end_bit) {
  DeviceArray<uint64_t> other_rows(queue, size);
  DeviceArray<uint32_t> other_entries(queue, size);
  cub::DoubleBuffer<uint64_t> keys(rows.data(), other_rows.data());
  cub::DoubleBuffer<uint32_t> values(entries.data(), other_entries.data());
  size_t bytes = 0;
  queue.Check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, size, 0, end_bit,
                                              queue.cuda_stream()),
              "SortPairs");
  DeviceArray<std::byte> memory(queue, bytes);
  queue.Calls("cub::DeviceRadixSort::SortPairs");
  queue.Check(cub::DeviceRadixSort::SortPairs(memory.data(), bytes, keys, values, size, 0, end_bit,
                                              queue.cuda_stream()),
              "SortPairs");
  if (keys.Current() != rows.data()) std::swap(rows, other_rows);
  if (values.Current() != entries.data()) std::swap(entries, other_entries);
}

}  // namespace sparseagg::gpu
