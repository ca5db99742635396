#include "cpu/windowed/canonical.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "cpu/state/key_sort.h"
#include "sparse/ops/all.h"
#include "sparse/slot_math.h"
#include "sparse/validate.h"
#include "sparse/values.h"
#include "sparse/wide_integer.h"

namespace sparseagg {
namespace {

// Returns the positions of the entries, ascending by row; entries of one row are in any order.
HostVector<uint64_t> SortedPositions(const uint64_t* rows, uint64_t nnz) {
  HostVector<uint64_t> order(nnz);
  const auto [least, most] = std::minmax_element(rows, rows + nnz);
  const int position_bits = std::bit_width(nnz - 1);
  if (std::bit_width(*most - *least) + position_bits > 64) {
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::sort(order.begin(), order.end(),
              [rows](uint64_t a, uint64_t b) { return rows[a] < rows[b]; });
    return order;
  }
  const uint64_t mask = position_bits == 0 ? 0 : ~uint64_t{0} >> (64 - position_bits);
  for (uint64_t i = 0; i < nnz; ++i) {
    order[i] = ((rows[i] - *least) << position_bits) | i;
  }
  SortWithPositions(order.data(), nnz, position_bits);
  for (uint64_t& position : order) position &= mask;
  return order;
}

// Copies chosen entries, in the order of the calls.
class EntryCopier {
 public:
  EntryCopier(const CooView& from, uint64_t nnz)
      : from_rows_(from.rows.wide()),
        from_values_(static_cast<const std::byte*>(from.values)),
        row_bytes_(from.layout.row_bytes()) {
    rows_.resize(nnz * sizeof(uint64_t));
    values_.resize(nnz * row_bytes_);
  }

  void Add(uint64_t entry) {
    Row() = from_rows_[entry];
    const std::byte* const value = from_values_ + entry * row_bytes_;
    switch (row_bytes_) {  // known sizes are copied without a call
      case 2:
        std::memcpy(Value(), value, 2);
        break;
      case 4:
        std::memcpy(Value(), value, 4);
        break;
      case 8:
        std::memcpy(Value(), value, 8);
        break;
      default:
        std::memcpy(Value(), value, row_bytes_);
    }
    ++size_;
  }

  // The row and the values of the next entry, for callers that write it in place; Next() completes
  // it.
  uint64_t& Row() { return reinterpret_cast<uint64_t*>(rows_.data())[size_]; }
  std::byte* Value() { return values_.data() + size_ * row_bytes_; }
  void Next() { ++size_; }

  void MoveTo(Prepared& prepared, float weight, bool canonical) && {
    if (size_ == 0) return;
    const auto* rows = reinterpret_cast<const uint64_t*>(rows_.data());
    prepared.cursors.push_back({.row = rows,
                                .end = rows + size_,
                                .value = values_.data(),
                                .weight = weight,
                                .canonical = canonical});
    prepared.owned.push_back(std::move(rows_));
    prepared.owned.push_back(std::move(values_));
  }

 private:
  const uint64_t* const from_rows_;
  const std::byte* const from_values_;
  const uint64_t row_bytes_;
  HostVector<std::byte> rows_;
  HostVector<std::byte> values_;
  uint64_t size_ = 0;
};

// Returns the contributor's value of one coordinate: the sum of its entries, rounded once to the
// value type.
template <class V>
V SumOf(const V* values, std::span<const uint64_t> entries, uint64_t width, uint32_t column) {
  if constexpr (ValueTraits<V>::kFloating) {
    WideInteger sum;
    for (uint64_t entry : entries) sum.Add(Widen(values[entry * width + column]));
    return ValueTraits<V>::Narrow(sum.Round(ValueTraits<V>::kFormat));
  } else {
    Int128 sum = 0;  // in range, or modular: ValidateUpdate() has checked that
    for (uint64_t entry : entries) sum += static_cast<Int128>(values[entry * width + column]);
    return static_cast<V>(sum);
  }
}

void AddSummed(const ReduceSpec& spec, const CooView& from, std::span<const uint64_t> run,
               EntryCopier& out) {
  const uint32_t width = spec.layout.row_width;
  out.Row() = from.rows.wide()[run[0]];
  WithValueType(spec.layout.value_type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    auto* to = reinterpret_cast<V*>(out.Value());
    for (uint32_t c = 0; c < width; ++c) {
      to[c] = SumOf(static_cast<const V*>(from.values), run, width, c);
    }
  });
  out.Next();
}

void CopySorted(const CooView& from, const HostVector<uint64_t>& order, float weight,
                Prepared& prepared) {
  EntryCopier sorted(from, from.nnz);
  for (uint64_t entry : order) sorted.Add(entry);
  std::move(sorted).MoveTo(prepared, weight, false);
}

void CopyOnePerRow(const ReduceSpec& spec, const CooView& from, const HostVector<uint64_t>& order,
                   float weight, Prepared& prepared) {
  bool summed = false;
  bool rest_counts = false;
  AllOps::With(spec.op, [&](auto op) {
    summed = kNeedsUniqueRows<decltype(op)>;
    rest_counts = decltype(op)::kValues == ValueSlots::kExactSum;
  });
  EntryCopier first(from, from.nnz);
  EntryCopier rest(from, rest_counts ? from.nnz : 0);
  for (uint64_t i = 0; i < order.size();) {
    uint64_t end = i + 1;
    while (end < order.size() && from.rows.wide()[order[end]] == from.rows.wide()[order[i]]) ++end;
    if (summed && end - i > 1) {
      AddSummed(spec, from, std::span(order).subspan(i, end - i), first);
    } else {
      first.Add(order[i]);
      for (uint64_t k = i + 1; rest_counts && k < end; ++k) rest.Add(order[k]);
    }
    i = end;
  }
  std::move(first).MoveTo(prepared, weight, true);
  std::move(rest).MoveTo(prepared, -weight, false);
}

}  // namespace

Cursor CursorOf(const PendingUpdate& update) {
  const CooView entries = update.staged.entries.view();
  return {.row = entries.rows.wide(),
          .end = entries.rows.wide() + entries.nnz,
          .value = static_cast<const std::byte*>(entries.values),
          .weight = update.weight,
          .canonical = update.staged.order == EntryOrder::kCanonical};
}

bool IsReady(const PendingUpdate& update, Need need) {
  const EntryOrder order = update.staged.order;
  if (need == Need::kAny) return true;
  if (need == Need::kUniqueRows) return order == EntryOrder::kCanonical;
  return order == EntryOrder::kCanonical || order == EntryOrder::kSorted;
}

Prepared PrepareUpdate(const ReduceSpec& spec, const PendingUpdate& update, Need need) {
  Prepared prepared;
  const CooView from = update.staged.entries.view();
  const HostVector<uint64_t> order = SortedPositions(from.rows.wide(), from.nnz);
  if (need == Need::kUniqueRows) {
    CopyOnePerRow(spec, from, order, update.weight, prepared);
  } else {
    CopySorted(from, order, update.weight, prepared);
  }
  return prepared;
}

std::vector<Prepared> PrepareUpdates(const ReduceSpec& spec, Need need, Parallel& parallel,
                                     std::vector<PendingUpdate>& batch) {
  std::vector<Prepared> prepared(batch.size());
  std::vector<size_t> unready;
  for (size_t u = 0; u < batch.size(); ++u) {
    if (batch[u].staged.entries.nnz > 0 && !IsReady(batch[u], need)) unready.push_back(u);
  }
  parallel.For(unready.size(), [&](size_t i) {
    PendingUpdate& update = batch[unready[i]];
    StagedUpdate& staged = update.staged;
    if (staged.order == EntryOrder::kUnknown) {
      staged.order = OrderOf(staged.entries.rows.wide(), staged.entries.nnz);
    }
    if (!IsReady(update, need)) prepared[unready[i]] = PrepareUpdate(spec, update, need);
  });
  return prepared;
}

}  // namespace sparseagg
