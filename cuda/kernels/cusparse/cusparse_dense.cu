// In: a dense state, slots [num_rows, slots()] or keys, held [num_rows / 32]. Out: a run.
//
// What is converted are the bits of the rows that are held, as bytes: a held row whose sum is 0
// stays, and no value is ever compared with zero. A range of rows is a matrix of 1024 columns, so
// that the library has rows enough to share among blocks; it promises no order of the columns
// inside a row, so what it finds is sorted. Then slots are gathered with 64-bit places: 16 bytes as
// a complex f64, keys of min and max as an f64. A gather moves bits; nothing is computed with them.
// Bytes a row of the index space: 1 written and 2 read; a held row: some 100, and 32 a slot. Made
// once, for a result: ListHeld (dense_state.cu) reads a bit for a row, twice, and is the better one
// by the model.
#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/kernels/cusparse/cusparse.h"
#include "cuda/kernels/cusparse/cusparse_dense.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/search.cuh"
#include "cuda/kernels/ordered_key.h"
#include "cuda/kernels/sort/device_sort.h"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kColumns = 1024;

// One byte for each row from `begin` on; 0 from `end` on.
struct SpreadBits {
  const uint32_t* held;
  uint64_t begin;
  uint64_t end;
  uint8_t* flags;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t row = begin + i;
    flags[i] = row < end ? (held[row / 32] >> (row % 32)) & 1 : 0;
  }
};

// The place of each flag in its range.
struct Flatten {
  const uint64_t* offsets;  // [matrix_rows + 1]
  uint64_t matrix_rows;
  const int64_t* columns;
  uint64_t* places;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t r = LowerBound(offsets, matrix_rows + 1, i + 1) - 1;
    places[i] = r * kColumns + static_cast<uint64_t>(columns[i]);
  }
};

struct AddBegin {
  const uint64_t* places;
  uint64_t begin;
  uint64_t* rows;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const { rows[i] = begin + places[i]; }
};

struct PlacesOfSlots {
  const uint64_t* rows;
  uint32_t width;
  uint64_t* places;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    places[i] = rows[i / width] * width + i % width;
  }
};

struct SlotsOfKeys {
  SlotRule rule;
  const uint64_t* keys;
  Int128* slots;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const { slots[i] = KeyOfOrdered(rule, keys[i]); }
};

// Where rows are held among those from `begin` to `end`, ascending, counted from `begin`.
DeviceArray<uint64_t> HeldIn(Queue& queue, const DenseState& state, uint64_t begin, uint64_t end) {
  const uint64_t matrix_rows = (end - begin + kColumns - 1) / kColumns;
  DeviceArray<uint8_t> flags(queue, matrix_rows * kColumns);
  ForEach(queue, flags.size(), SpreadBits{state.held.data(), begin, end, flags.data()});
  DeviceArray<int64_t> offsets(queue, matrix_rows + 1);
  const DeviceArray<int64_t> columns =
      ColumnsOfFlags(queue, {static_cast<int64_t>(matrix_rows), static_cast<int64_t>(kColumns),
                             flags.data(), offsets.data()});
  DeviceArray<uint64_t> places(queue, columns.size());
  ForEach(queue, places.size(),
          Flatten{reinterpret_cast<const uint64_t*>(offsets.data()), matrix_rows, columns.data(),
                  places.data()});
  const int bits = 64 - CountLeadingZeros(flags.size() - 1);
  if (places.size() > 1) SortWords(queue, places, static_cast<uint32_t>(places.size()), 0, bits);
  return places;
}

DeviceArray<uint64_t> HeldRows(Queue& queue, const DenseState& state, uint64_t rows_at_a_time) {
  std::vector<DeviceArray<uint64_t>> parts;
  uint64_t size = 0;
  for (uint64_t begin = 0; begin < state.num_rows; begin += rows_at_a_time) {
    const uint64_t end = std::min(begin + rows_at_a_time, state.num_rows);
    parts.push_back(HeldIn(queue, state, begin, end));
    size += parts.back().size();
  }
  DeviceArray<uint64_t> rows(queue, size);
  uint64_t at = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    ForEach(queue, parts[p].size(),
            AddBegin{parts[p].data(), p * rows_at_a_time, rows.data() + at});
    at += parts[p].size();
  }
  return rows;
}

}  // namespace

SlotRun ListHeldInRanges(Queue& queue, const SlotRule& rule, const DenseState& state,
                         uint64_t rows_at_a_time) {
  SlotRun run;
  run.rows = HeldRows(queue, state, rows_at_a_time);
  run.size = run.rows.size();
  const uint64_t slots = run.size * rule.slots();
  run.slots = {queue, slots};
  if (slots == 0) return run;
  DeviceArray<uint64_t> places(queue, slots);
  ForEach(queue, slots, PlacesOfSlots{run.rows.data(), rule.slots(), places.data()});
  const auto gather = [&](Element element, void* from, void* to) {
    Gather(queue, {element, static_cast<int64_t>(state.num_rows * rule.slots()), from,
                   static_cast<int64_t>(slots), places.data(), to});
  };
  if (rule.extreme()) {
    DeviceArray<uint64_t> keys(queue, slots);
    gather(Element::kBytes8, state.keys.data(), keys.data());
    ForEach(queue, slots, SlotsOfKeys{rule, keys.data(), run.slots.data()});
  } else {
    gather(Element::kBytes16, state.slots.data(), run.slots.data());
  }
  return run;
}

}  // namespace sparseagg::gpu
