// In: two runs, rows [size] and slots [size, slots()]. Out: a run of at most both sizes.
//
// One thread a row finds its place by binary search in the other run (about log2(size) reads, most
// of them in the caches, since neighbours search nearby); one thread a slot moves it. Bytes: both
// runs are read once and the result is written once, 8 + 16 * slots() a row each.
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/merge_runs.h"
#include "cuda/kernels/scan.h"
#include "cuda/kernels/search.cuh"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kNowhere = ~uint64_t{0};

struct Rows {
  const uint64_t* rows;
  Count count;

  SPARSEAGG_DEVICE uint64_t LowerBoundOf(uint64_t row) const {
    return LowerBound(rows, count.Get(), row);
  }
  SPARSEAGG_DEVICE bool Has(uint64_t at, uint64_t row) const {
    return at < count.Get() && rows[at] == row;
  }
};

// news[j] = 1 for the rows of b that a does not have; 0 behind its last one.
struct MarkNew {
  Rows a;
  Rows b;
  uint64_t* news;

  SPARSEAGG_DEVICE void operator()(uint64_t j) const {
    news[j] = j < b.count.Get() && !a.Has(a.LowerBoundOf(b.rows[j]), b.rows[j]) ? 1 : 0;
  }
};

struct AddSizes {
  Count a;
  const uint64_t* news;
  uint64_t* sum;
  SPARSEAGG_DEVICE void operator()(uint64_t) const { *sum = a.Get() + *news; }
};

// Where the rows of a go, and which row of b is the same.
struct PlaceOld {
  Rows a;
  Rows b;
  const uint64_t* new_before;  // [b.count + 1]
  uint64_t* out_rows;
  uint64_t* places;  // [a.count]
  uint64_t* twins;   // [a.count]

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t row = a.rows[i];
    const uint64_t at = b.LowerBoundOf(row);
    places[i] = i + new_before[at];
    twins[i] = b.Has(at, row) ? at : kNowhere;
    out_rows[places[i]] = row;
  }
};

// Where the new rows of b go. places[j] = kNowhere for the others.
struct PlaceNew {
  Rows a;
  Rows b;
  const uint64_t* new_before;
  uint64_t* out_rows;
  uint64_t* places;  // [b.count]

  SPARSEAGG_DEVICE void operator()(uint64_t j) const {
    const bool is_new = new_before[j + 1] != new_before[j];
    places[j] = is_new ? a.LowerBoundOf(b.rows[j]) + new_before[j] : kNowhere;
    if (is_new) out_rows[places[j]] = b.rows[j];
  }
};

struct MoveSlots {
  SlotRule rule;
  const Int128* from;
  const uint64_t* places;
  const uint64_t* twins;  // null: none
  const Int128* twin_slots;
  Int128* out;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint64_t r = i / width;
    const auto c = static_cast<uint32_t>(i % width);
    if (places[r] == kNowhere) return;
    Int128 slot = from[i];
    if (twins != nullptr && twins[r] != kNowhere) {
      slot = rule.Join(c, slot, twin_slots[twins[r] * width + c]);
    }
    out[places[r] * width + c] = slot;
  }
};

}  // namespace

uint64_t MergeBytes(const SlotRule& rule, uint64_t a_size, uint64_t b_size) {
  const uint64_t row_bytes = sizeof(uint64_t) + rule.slots() * sizeof(Int128);
  return (a_size + b_size) * (row_bytes + 2 * sizeof(uint64_t)) + b_size * sizeof(uint64_t);
}

Run MergeRuns(Queue& queue, const SlotRule& rule, const Run& a, const Run& b) {
  const Rows old_rows{a.rows.data(), a.count()};
  const Rows new_rows{b.rows.data(), b.count()};
  DeviceArray<uint64_t> new_before(queue, b.size + 1);
  ForEach(queue, b.size + 1, MarkNew{old_rows, new_rows, new_before.data()});
  ExclusiveSum(queue, new_before.data(), b.size + 1);
  DeviceArray<uint64_t> number(queue, 1);
  ForEach(queue, 1, AddSizes{a.count(), new_before.data() + b.size, number.data()});
  Run out = MakeRun(queue, rule, number.data(), a.size + b.size);
  DeviceArray<uint64_t> places_a(queue, a.size);
  DeviceArray<uint64_t> twins(queue, a.size);
  DeviceArray<uint64_t> places_b(queue, b.size);
  ForEach(queue, a.count(), 1,
          PlaceOld{old_rows, new_rows, new_before.data(), out.rows.data(), places_a.data(),
                   twins.data()});
  ForEach(queue, b.count(), 1,
          PlaceNew{old_rows, new_rows, new_before.data(), out.rows.data(), places_b.data()});
  ForEach(queue, a.count(), rule.slots(),
          MoveSlots{rule, a.slots.data(), places_a.data(), twins.data(), b.slots.data(),
                    out.slots.data()});
  ForEach(queue, b.count(), rule.slots(),
          MoveSlots{rule, b.slots.data(), places_b.data(), nullptr, nullptr, out.slots.data()});
  return out;
}

}  // namespace sparseagg::gpu
