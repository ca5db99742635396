// Out: rows [nnz] and values [nnz, width] of each update. One thread an entry; a hash of its number
// is all the randomness there is, so that every run has the same data.
#include <cmath>

#include "bench/gpu/device_batch.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/sort/hash.h"

namespace sparseagg::gpu {
namespace {

enum class Indices { kUniform, kZipf, kOverlap };

struct MakeRows {
  uint64_t* rows;  // [nnz]
  uint64_t nnz;
  uint64_t num_rows;
  uint64_t seed;
  uint32_t update;
  Indices indices;
  bool sorted;

  SPARSEAGG_DEVICE void operator()(uint64_t e) const {
    const bool common = indices == Indices::kOverlap && e % 2 == 0;
    const uint64_t key = Hash(seed ^ (common ? 0 : uint64_t{update} << 40) ^ e);
    if (sorted) {
      // Strictly ascending: one row from each of nnz parts of the index space. In the overlap, even
      // parts have the same row in every update.
      const uint64_t part = PartBegin(e);
      rows[e] = part + key % (PartBegin(e + 1) - part);
    } else if (indices == Indices::kZipf) {
      const double u = (static_cast<double>(key >> 11) + 1) * 0x1p-53;
      const double row = pow(u, -20.0) - 1;  // exponent 1.05
      rows[e] = row < static_cast<double>(num_rows) ? static_cast<uint64_t>(row) : key % num_rows;
    } else {
      rows[e] = key % num_rows;
    }
  }

 private:
  // None is empty; those of "zipf" are short at low rows.
  SPARSEAGG_DEVICE uint64_t PartBegin(uint64_t e) const {
    const double at = static_cast<double>(e) / static_cast<double>(nnz);
    const double share = indices == Indices::kZipf ? at * at * at * at : at;
    return e + static_cast<uint64_t>(share * static_cast<double>(num_rows - nnz));
  }
};

struct MakeValues {
  float* values;
  uint64_t seed;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const auto bits = static_cast<uint32_t>(Hash(seed + i));
    values[i] = (static_cast<float>(bits) * 0x1p-32f - 0.5f) * 0x1p-9f;
  }
};

struct Digest {
  SlotRule rule;
  const uint64_t* rows;
  const Int128* slots;
  uint64_t* sum;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    AtomicAdd(sum, DigestOfSlot(rows[i / rule.slots()], i % rule.slots(), slots[i]));
  }
};

struct CountDifferences {
  const std::byte* a;
  const std::byte* b;
  uint64_t* count;
  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    if (a[i] != b[i]) AtomicAdd(count, uint64_t{1});
  }
};

}  // namespace

DeviceBatch MakeBatch(Queue& queue, const BatchCase& batch_case, uint64_t seed) {
  DeviceBatch batch;
  const uint64_t nnz = batch_case.nnz_per_update();
  const uint64_t update_bytes =
      (nnz * (sizeof(uint64_t) + batch_case.width * sizeof(float)) + 63) / 64 * 64;
  batch.memory = {queue, update_bytes * batch_case.contributors};
  const Indices indices = batch_case.indices == "zipf"      ? Indices::kZipf
                          : batch_case.indices == "overlap" ? Indices::kOverlap
                                                            : Indices::kUniform;
  const EntryOrder order = batch_case.sorted ? EntryOrder::kCanonical : EntryOrder::kUnsorted;
  for (uint32_t u = 0; u < batch_case.contributors; ++u) {
    auto* rows = reinterpret_cast<uint64_t*>(batch.memory.data() + u * update_bytes);
    auto* values = reinterpret_cast<float*>(rows + nnz);
    ForEach(queue, nnz,
            MakeRows{rows, nnz, batch_case.rows, Hash(seed), u, indices, batch_case.sorted});
    ForEach(queue, nnz * batch_case.width, MakeValues{values, Hash(seed + u + 1)});
    batch.refs.push_back({rows, values, u * nnz, nnz, static_cast<float>(1 + u % 100), order});
  }
  batch.table = {queue, batch.refs.size()};
  queue.Upload(batch.table.data(), batch.refs.data(), batch.refs.size());
  queue.Synchronize();
  batch.view = {.updates = batch.table.data(),
                .num_updates = batch_case.contributors,
                .nnz = nnz * batch_case.contributors,
                .num_rows = batch_case.rows,
                .width = batch_case.width,
                .order = order,
                .update_nnz_max = nnz};
  return batch;
}

uint64_t DigestOf(Queue& queue, const SlotRule& rule, const SlotRun& run) {
  DeviceArray<uint64_t> sum(queue, 1);
  queue.Fill(sum.data(), 0, 1);
  ForEach(queue, run.size * rule.slots(),
          Digest{rule, run.rows.data(), run.slots.data(), sum.data()});
  return queue.Read(sum.data());
}

uint64_t Differences(Queue& queue, const std::byte* a, const std::byte* b, uint64_t size) {
  DeviceArray<uint64_t> count(queue, 1);
  queue.Fill(count.data(), 0, 1);
  ForEach(queue, size, CountDifferences{a, b, count.data()});
  return queue.Read(count.data());
}

}  // namespace sparseagg::gpu
