// Batches of scalars for tests of kernels, and what their sums are by std::map.
#ifndef SPARSEAGG_TESTS_CUDA_HOST_BATCH_H_
#define SPARSEAGG_TESTS_CUDA_HOST_BATCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

inline const SlotRule kSum{.type = ValueType::kI64};
inline const SlotRule kSumAndCount{.row = RowSlot::kOne, .type = ValueType::kI64};
inline const SlotRule kCount{
    .values = ValueSlots::kNone, .row = RowSlot::kOne, .type = ValueType::kI64};

struct HostUpdate {
  std::vector<uint64_t> rows;
  std::vector<int64_t> values;
  float weight = 1;
};
using Sums = std::map<uint64_t, std::vector<Int128>>;

// Makes an update whose values have any size and sign.
inline HostUpdate UpdateOf(std::vector<uint64_t> rows, std::mt19937_64& random) {
  HostUpdate update{.weight = static_cast<float>(random() % 1000)};
  for (size_t i = 0; i < rows.size(); ++i) {
    update.values.push_back(static_cast<int64_t>(random()) >> random() % 64);
  }
  update.rows = std::move(rows);
  return update;
}

inline Sums Expected(const SlotRule& rule, const std::vector<HostUpdate>& updates) {
  Sums sums;
  for (const HostUpdate& update : updates) {
    for (size_t e = 0; e < update.rows.size(); ++e) {
      std::vector<Int128>& slots = sums.try_emplace(update.rows[e], rule.slots()).first->second;
      if (rule.value_slots() != 0) {
        slots[0] += static_cast<Int128>(update.weight) * update.values[e];
      }
      if (rule.row != RowSlot::kNone) slots.back() += 1;
    }
  }
  return sums;
}

// The updates in device memory.
struct DeviceBatch {
  DeviceArray<uint64_t> rows;
  DeviceArray<int64_t> values;
  DeviceArray<UpdateRef> refs;
  BatchView view;
};
inline DeviceBatch Upload(Queue& queue, uint64_t num_rows, const std::vector<HostUpdate>& updates) {
  std::vector<uint64_t> rows;
  std::vector<int64_t> values;
  for (const HostUpdate& update : updates) {
    rows.insert(rows.end(), update.rows.begin(), update.rows.end());
    values.insert(values.end(), update.values.begin(), update.values.end());
  }
  DeviceBatch batch{{queue, rows.size()}, {queue, rows.size()}, {queue, updates.size()}, {}};
  queue.UploadPageable(batch.rows.data(), rows.data(), rows.size());
  queue.UploadPageable(batch.values.data(), values.data(), values.size());
  std::vector<UpdateRef> refs;
  uint64_t first = 0;
  for (const HostUpdate& update : updates) {
    refs.push_back({batch.rows.data() + first, batch.values.data() + first, first,
                    update.rows.size(), update.weight, EntryOrder::kCanonical});
    first += update.rows.size();
  }
  queue.UploadPageable(batch.refs.data(), refs.data(), refs.size());
  batch.view = {.updates = batch.refs.data(),
                .num_updates = static_cast<uint32_t>(updates.size()),
                .nnz = rows.size(),
                .num_rows = num_rows,
                .width = 1,
                .order = EntryOrder::kCanonical};
  return batch;
}

inline Sums Fetch(Queue& queue, const SlotRule& rule, SlotRun& run) {
  CountRows(queue, run);
  std::vector<uint64_t> rows(run.size);
  std::vector<Int128> slots(run.size * rule.slots());
  queue.ReadInto(rows.data(), run.rows.data(), rows.size());
  queue.ReadInto(slots.data(), run.slots.data(), slots.size());
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  Sums sums;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto at = slots.begin() + static_cast<std::ptrdiff_t>(r * rule.slots());
    EXPECT_TRUE(sums.try_emplace(rows[r], at, at + rule.slots()).second) << "twice: " << rows[r];
  }
  return sums;
}

inline std::vector<uint64_t> Every(uint64_t step, uint64_t first, uint64_t size) {
  std::vector<uint64_t> rows(size);
  for (uint64_t i = 0; i < size; ++i) rows[i] = first + i * step;
  return rows;
}

inline std::vector<uint64_t> Distinct(uint64_t size, uint64_t num_rows, std::mt19937_64& random) {
  std::vector<uint64_t> rows;
  while (rows.size() < size) {
    for (size_t i = rows.size(); i < size; ++i) rows.push_back(random() % num_rows);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return rows;
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_TESTS_CUDA_HOST_BATCH_H_
