#include "sparse/reference_backend.h"

#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/ops/all.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"

namespace sparseagg {
namespace {

constexpr uint64_t kMapNodeBytes = 64;  // of std::map, approximately

// The state of one row. sparse/ops/op.h defines which members an operator uses.
struct Row {
  std::vector<WideInteger> sums;  // exact sums of w * x
  std::vector<Int128> keys;       // extremes, as order keys
  WideInteger holders;            // exact weight, or number, of the contributors that hold the row
};

template <class V>
void AddValue(WideInteger& sum, WideValue<V> addend) {
  if constexpr (ValueTraits<V>::kFloating) {
    sum.Add(addend);
  } else {
    sum.AddScaled(addend, 0);
  }
}

template <class Op, class V>
class ReferenceAggregator : public Aggregator {
 public:
  explicit ReferenceAggregator(const ReduceSpec& spec) : spec_(spec) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return StageOnHeap(spec_.layout, nnz);
  }

  absl::Status Accumulate(StagedUpdate update, float weight) override {
    const CooView entries = update.entries.view();
    SPARSEAGG_RETURN_IF_ERROR(CheckAddends(spec_, addends_, entries.nnz));
    ++contributors_;
    total_weight_.Add(weight);
    for (uint64_t e = 0; e < entries.nnz; ++e) rows_.try_emplace(entries.rows.wide()[e], MakeRow());
    AddHolders(entries, weight);
    if constexpr (Op::kValues == ValueSlots::kExactSum) AddSums(entries, weight);
    if constexpr (kNeedsUniqueRows<Op>) AddExtremes(entries);
    if constexpr (Op::kValues == ValueSlots::kNone) addends_ += entries.nnz;
    return absl::OkStatus();
  }

  absl::Status Merge(Partial partial) override {
    SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(Header(), partial));
    partial = WithSlots(std::move(partial));
    contributors_ += partial.contributors;
    addends_ += partial.addends;
    total_weight_.Add(partial.total_weight);
    const uint32_t width = SlotsPerRow(spec_);
    for (size_t i = 0; i < partial.rows.size(); ++i) {
      Row& row = rows_.try_emplace(partial.rows[i], MakeRow()).first->second;
      for (uint32_t c = 0; c < width; ++c)
        MergeSlot(row, c, partial.slots[i * width + c], partial.lsb);
    }
    for (const SideEntry& s : partial.side)
      Wide(rows_.at(s.row), s.column).AddScaled(s.significand, s.exponent);
    return absl::OkStatus();
  }

  PlanReport plan_report() const override {
    return {.plan = "wide", .reason = "the only plan of this back end"};
  }

  // Writes every exact sum as side entries; slots hold only order keys, which are integers.
  absl::StatusOr<Partial> Snapshot() override {
    Partial partial = Header();
    const uint32_t width = SlotsPerRow(spec_);
    for (const auto& [index, row] : rows_) {
      partial.rows.push_back(index);
      for (uint32_t c = 0; c < width; ++c) {
        if (kNeedsUniqueRows<Op>) {
          partial.slots.push_back(row.keys[c]);
          continue;
        }
        partial.slots.push_back(0);
        AppendDigits(Wide(row, c), index, c, partial.side);
      }
    }
    return partial;
  }

  uint64_t memory_bytes() const override {
    return rows_.size() * (sizeof(Row) + kMapNodeBytes + SlotsPerRow(spec_) * sizeof(WideInteger));
  }

  absl::StatusOr<Aggregate> Report() && override {
    using R = ResultValue<Op, V>;
    Aggregate result;
    result.addends = addends_;
    SparseTensor& tensor = result.tensor;
    tensor.layout = ResultLayout(spec_);
    const double total_weight = total_weight_.ToDouble();
    for (const auto& [index, row] : rows_) {
      tensor.indices.kept().push_back(index);
      for (uint32_t c = 0; c < tensor.layout.row_width; ++c) {
        R value{};
        const Finalized finalized = Finalize(row, c, total_weight, &value);
        if (finalized == Finalized::kOverflow) return IntegerOverflowError(spec_, index, c);
        result.infinite_values += finalized == Finalized::kInfinite ? 1 : 0;
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        tensor.values.insert(tensor.values.end(), bytes, bytes + sizeof(R));
      }
    }
    return result;
  }

 private:
  Row MakeRow() const {
    Row row;
    if constexpr (Op::kValues == ValueSlots::kExactSum) row.sums.resize(spec_.layout.row_width);
    if constexpr (kNeedsUniqueRows<Op>) row.keys.resize(spec_.layout.row_width, EmptySlot<Op>());
    return row;
  }

  // The state without its rows.
  Partial Header() const {
    Partial partial;
    partial.spec = spec_;
    partial.contributors = contributors_;
    partial.total_weight = total_weight_;
    partial.addends = addends_;
    return partial;
  }

  // Returns the wide integer of slot `c`: the value slots come first, then the row slot.
  template <class R>
  static auto& Wide(R& row, uint32_t c) {
    return c < row.sums.size() ? row.sums[c] : row.holders;
  }

  void AddHolders(const CooView& entries, float weight) {
    if constexpr (Op::kRowSlot != RowSlot::kNone) {
      const std::set<uint64_t> held(entries.rows.wide(), entries.rows.wide() + entries.nnz);
      for (uint64_t row : held)
        rows_.at(row).holders.Add(Op::kRowSlot == RowSlot::kWeight ? weight : 1.0);
    }
  }

  void AddSums(const CooView& entries, float weight) {
    const auto* values = static_cast<const V*>(entries.values);
    const uint32_t width = spec_.layout.row_width;
    for (uint64_t e = 0; e < entries.nnz; ++e) {
      Row& row = rows_.at(entries.rows.wide()[e]);
      for (uint32_t c = 0; c < width; ++c)
        AddValue<V>(row.sums[c], Lift(values[e * width + c], weight));
      ++addends_;
    }
  }

  // Sums the duplicates within the update first, then takes the extreme.
  void AddExtremes(const CooView& entries) {
    const auto* values = static_cast<const V*>(entries.values);
    const uint32_t width = spec_.layout.row_width;
    std::map<uint64_t, std::vector<WideInteger>> own;
    for (uint64_t e = 0; e < entries.nnz; ++e) {
      auto& sums = own.try_emplace(entries.rows.wide()[e], width).first->second;
      for (uint32_t c = 0; c < width; ++c) AddValue<V>(sums[c], ToWide(values[e * width + c]));
      ++addends_;
    }
    for (const auto& [index, sums] : own) {
      Row& row = rows_.at(index);
      for (uint32_t c = 0; c < width; ++c)
        row.keys[c] = CombineSlots<Op>(row.keys[c], Key(sums[c]));
    }
  }

  Int128 Key(const WideInteger& sum) const {
    if constexpr (ValueTraits<V>::kFloating) {
      return ContributionKey(sum.Round(ValueTraits<V>::kFormat));
    } else {
      return ContributionKey<V>(sum.ToInteger(), spec_.integer_overflow);
    }
  }

  void MergeSlot(Row& row, uint32_t c, Int128 slot, int32_t lsb) {
    if constexpr (kNeedsUniqueRows<Op>) {
      row.keys[c] = CombineSlots<Op>(row.keys[c], slot);
    } else {
      Wide(row, c).AddScaled(slot, lsb);
    }
  }

  Finalized Finalize(const Row& row, uint32_t c, double total_weight,
                     ResultValue<Op, V>* value) const {
    if constexpr (kNeedsUniqueRows<Op>) {
      const SlotValue key{row.keys[c], 0};
      return FinalizeValue<Op, V>(key, key, total_weight, spec_.integer_overflow, value);
    } else {
      return FinalizeValue<Op, V>(Wide(row, c), row.holders, total_weight, spec_.integer_overflow,
                                  value);
    }
  }

  ReduceSpec spec_;
  uint64_t contributors_ = 0;
  uint64_t addends_ = 0;
  WideInteger total_weight_;
  std::map<uint64_t, Row> rows_;
};

class ReferenceBackend : public Backend {
 public:
  ReferenceBackend() {
    info_.name = "reference";
    info_.description = "one wide integer for each coordinate; defines the results, slow";
    info_.memory_bytes = ~uint64_t{0};
    info_.plans = {"wide"};
    info_.cost = &Cost;
  }

  const BackendInfo& info() const override { return info_; }

  static PlanCost Cost(const BackendInfo&, std::string_view, const ReduceSpec& spec,
                       const Workload&) {
    PlanCost cost;
    cost.entry_bytes = sizeof(uint64_t) + spec.layout.row_bytes() + sizeof(uint64_t) + sizeof(Row) +
                       kMapNodeBytes + SlotsPerRow(spec) * sizeof(WideInteger);
    return cost;
  }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    std::unique_ptr<Aggregator> aggregator;
    AllOps::With(plan.spec.op, [&](auto op) {
      WithValueType(plan.spec.layout.value_type, [&](auto tag) {
        aggregator =
            std::make_unique<ReferenceAggregator<decltype(op), typename decltype(tag)::type>>(
                plan.spec);
      });
    });
    if (aggregator == nullptr) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_OPERATOR",
                       absl::StrCat("there is no operator \"", plan.spec.op, "\""));
    }
    return aggregator;
  }

 private:
  BackendInfo info_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeReferenceBackend(const BackendOptions&) {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace sparseagg
