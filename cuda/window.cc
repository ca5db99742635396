#include "cuda/window.h"

#include <algorithm>

#include "sparse/ops/all.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"
#include "sparse/window.h"
#include "sparse/window_choice.h"

namespace sparseagg::gpu {
namespace {

constexpr uint64_t kSamples = 4096;

template <class V>
void SampleProducts(const PendingUpdate& update, uint64_t stride, uint64_t& next,
                    std::vector<double>& samples) {
  if constexpr (ValueTraits<V>::kFloating) {
    const CooView entries = update.staged.entries.view();
    const auto* values = static_cast<const V*>(entries.values);
    const uint64_t count = entries.nnz * entries.layout.row_width;
    for (; next < count; next += stride) samples.push_back(Lift(values[next], update.weight));
    next -= count;
  }
}

}  // namespace

SlotRule RuleOf(const ReduceSpec& spec) {
  SlotRule rule{.type = spec.layout.value_type,
                .overflow = spec.integer_overflow,
                .width = spec.layout.row_width};
  AllOps::With(spec.op, [&](auto op) {
    rule.values = decltype(op)::kValues;
    rule.row = decltype(op)::kRowSlot;
  });
  return rule;
}

int32_t ChooseLsb(const SlotRule& rule, const std::vector<PendingUpdate>& updates) {
  if (!rule.has_side()) return 0;
  std::vector<double> samples;
  if (rule.values == ValueSlots::kExactSum) {
    uint64_t values = 0;
    for (const PendingUpdate& update : updates) {
      values += update.staged.entries.nnz * rule.width;
    }
    const uint64_t stride = values / kSamples + 1;
    uint64_t next = 0;
    for (const PendingUpdate& update : updates) {
      WithValueType(rule.type, [&](auto tag) {
        SampleProducts<typename decltype(tag)::type>(update, stride, next, samples);
      });
    }
  }
  if (rule.row == RowSlot::kWeight) {
    const uint64_t stride = updates.size() / kSamples + 1;
    for (size_t u = 0; u < updates.size(); u += stride) samples.push_back(updates[u].weight);
  }
  return ChooseWindow(samples);
}

void AppendRowSide(const SlotRule& rule, const std::vector<PendingUpdate>& updates,
                   std::vector<SideEntry>& side) {
  if (rule.row != RowSlot::kWeight || !IsFloating(rule.type)) return;
  for (const PendingUpdate& update : updates) {
    Int128 fixed;
    if (ToFixed(update.weight, rule.lsb, &fixed)) continue;
    const Scaled weight = Decompose(update.weight);
    const CooView entries = update.staged.entries.view();
    std::vector<uint64_t> rows(entries.rows.wide(), entries.rows.wide() + entries.nnz);
    if (update.staged.order != EntryOrder::kCanonical) {
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    }
    for (const uint64_t row : rows) {
      side.push_back({row, rule.value_slots(), weight.exponent, weight.significand});
    }
  }
}

}  // namespace sparseagg::gpu
