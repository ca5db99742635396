#include "sparse/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "sparse/ops/all.h"
#include "sparse/rows/packed_rows.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"

namespace sparseagg {
namespace {

constexpr uint32_t kErrorBit = uint32_t{1} << 31;

absl::Status Invalid(std::string_view reason, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

// Returns the position of a value for messages: `tensor "emb": entry 17 (row 812), value 3`.
std::string Where(const ReduceSpec& spec, const CooView& entries, uint64_t entry, uint64_t column) {
  std::string text = absl::StrCat("tensor \"", spec.name, "\": entry ", entry, " (row ",
                                  RowOf(entries, entry), ")");
  if (spec.layout.row_width > 1) absl::StrAppend(&text, ", value ", column);
  return text;
}

absl::Status RowError(const ReduceSpec& spec, const CooView& entries, uint64_t begin) {
  uint64_t e = begin;
  while (entries.rows.wide()[e] < spec.layout.num_rows) ++e;
  return Invalid("INDEX_OUT_OF_RANGE",
                 absl::StrCat("tensor \"", spec.name, "\": index ", entries.rows.wide()[e],
                              " at entry ", e, " is not below ", spec.layout.num_rows, " rows"));
}

// Returns a word whose highest bit is set unless the value and, for f64, its product with the
// weight are finite: the largest exponent carries into it.
uint32_t NonFiniteBit(float value, float /*weight*/) {
  return (BitCast<uint32_t>(value) & 0x7FFFFFFFu) + 0x00800000u;
}
uint32_t NonFiniteBit(F16 value, float /*weight*/) {
  return ((value.bits & 0x7FFFu) + 0x0400u) << 16;
}
uint32_t NonFiniteBit(BF16 value, float /*weight*/) {
  return ((value.bits & 0x7FFFu) + 0x0080u) << 16;
}
uint32_t NonFiniteBit(double value, float weight) {
  return IsFiniteBits(value) && IsFiniteBits(Lift(value, weight)) ? 0 : kErrorBit;
}

template <class V>
absl::Status ValueError(const ReduceSpec& spec, const CooView& entries, uint64_t begin,
                        float weight) {
  const auto* values = static_cast<const V*>(entries.values);
  const uint64_t width = spec.layout.row_width;
  uint64_t i = begin;
  while ((NonFiniteBit(values[i], weight) & kErrorBit) == 0) ++i;
  const double value = Widen(values[i]);
  const std::string where = Where(spec, entries, i / width, i % width);
  if (!IsFiniteBits(value)) {
    return Invalid("NON_FINITE_VALUE",
                   absl::StrCat(where, " is ", std::isnan(value) ? "NaN" : "infinite"));
  }
  return Invalid("PRODUCT_OVERFLOW",
                 absl::StrCat(where, ": ", value, " times the weight ", weight, " is beyond f64"));
}

constexpr uint64_t kBlock = 4096;

// Returns whether error_bit(i) has its highest bit set for some i in [0, count). The loop has no
// early exit and separate lanes, so that it is vectorized.
template <class F>
bool AnyErrorBit(uint64_t count, F error_bit) {
  constexpr uint64_t kLanes = 16;
  std::array<uint32_t, kLanes> lanes{};
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint64_t k = 0; k < kLanes; ++k) lanes[k] |= error_bit(i + k);
  }
  uint32_t any = 0;
  for (; i < count; ++i) any |= error_bit(i);
  for (const uint32_t lane : lanes) any |= lane;
  return (any & kErrorBit) != 0;
}

template <class V>
absl::Status CheckFloats(const ReduceSpec& spec, const CooView& entries, uint64_t from, uint64_t to,
                         float weight) {
  const auto* values = static_cast<const V*>(entries.values);
  for (uint64_t begin = from; begin < to; begin += kBlock) {
    const V* block = values + begin;
    const bool bad = AnyErrorBit(std::min(kBlock, to - begin),
                                 [=](uint64_t i) { return NonFiniteBit(block[i], weight); });
    if (bad) return ValueError<V>(spec, entries, begin, weight);
  }
  return absl::OkStatus();
}

// For min and max: checks that the duplicates of one row sum up within the type.
template <class V>
absl::Status CheckDuplicateSums(const ReduceSpec& spec, const CooView& entries) {
  const auto* values = static_cast<const V*>(entries.values);
  const uint64_t width = spec.layout.row_width;
  const uint64_t* const end = entries.rows.wide() + entries.nnz;
  if (std::adjacent_find(entries.rows.wide(), end, std::greater_equal<>()) == end) {
    return absl::OkStatus();  // strictly ascending: there are no duplicates
  }
  // A quick check, which nearly always suffices: every sum lies between the sum of all negative
  // values and that of all others.
  Int128 lowest = 0;
  Int128 highest = 0;
  for (uint64_t i = 0; i < entries.nnz * width; ++i) {
    (values[i] < V{0} ? lowest : highest) += values[i];
  }
  if (FitsInteger<V>(lowest) && FitsInteger<V>(highest)) return absl::OkStatus();
  std::vector<uint64_t> order(entries.nnz);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return entries.rows.wide()[a] < entries.rows.wide()[b];
  });
  std::vector<Int128> sums(width);
  for (uint64_t i = 0; i < order.size();) {
    const uint64_t row = entries.rows.wide()[order[i]];
    std::fill(sums.begin(), sums.end(), 0);
    uint64_t last = order[i];
    for (; i < order.size() && entries.rows.wide()[order[i]] == row; ++i) {
      last = order[i];
      for (uint64_t c = 0; c < width; ++c) sums[c] += values[last * width + c];
    }
    for (uint64_t c = 0; c < width; ++c) {
      if (!FitsInteger<V>(sums[c])) {
        return Invalid(
            "INTEGER_OVERFLOW",
            absl::StrCat(Where(spec, entries, last, c), ": the entries of this row sum up beyond ",
                         std::string(ValueTypeName(spec.layout.value_type))));
      }
    }
  }
  return absl::OkStatus();
}

bool UsesWeights(const ReduceSpec& spec) {
  bool uses = true;
  AllOps::With(spec.op, [&](auto op) { uses = kUsesWeights<decltype(op)>; });
  return uses;
}

absl::Status CheckIntegerWeight(const ReduceSpec& spec, float weight) {
  if (weight <= kIntegerWeightMax && weight == std::trunc(weight)) return absl::OkStatus();
  return Invalid("INVALID_WEIGHT",
                 absl::StrFormat("tensor \"%s\" holds integers: the weight %.9g must be a whole "
                                 "number of at most %.0f",
                                 spec.name, weight, kIntegerWeightMax));
}

// Checks what requires all entries of a tensor of integers.
template <class V>
absl::Status CheckAllIntegers(const ReduceSpec& spec, const CooView& entries) {
  bool needs_unique_rows = false;
  AllOps::With(spec.op, [&](auto op) { needs_unique_rows = kNeedsUniqueRows<decltype(op)>; });
  if (!needs_unique_rows || spec.integer_overflow == IntegerOverflow::kModular)
    return absl::OkStatus();
  return CheckDuplicateSums<V>(spec, entries);
}

}  // namespace

absl::Status AttributeToUpdate(const absl::Status& error, const std::string& update_id) {
  if (error.ok() || update_id.empty()) return error;
  const std::string message(error.message());
  return WithMetadata(WithMessage(error, absl::StrCat("update \"", update_id, "\": ", message)),
                      kUpdateIdKey, update_id);
}

absl::Status ValidateWeight(float weight) {
  if (std::isfinite(weight) && weight >= 0) return absl::OkStatus();
  return Invalid("INVALID_WEIGHT",
                 absl::StrCat("the weight is ", weight, "; it must be finite and not negative"));
}

EntryOrder OrderOf(const uint64_t* rows, uint64_t nnz) {
  bool distinct = true;
  for (uint64_t begin = 1; begin < nnz; begin += kBlock) {
    const uint64_t end = std::min(nnz, begin + kBlock);
    bool block_sorted = true;
    for (uint64_t e = begin; e < end; ++e) {
      block_sorted &= rows[e - 1] <= rows[e];
      distinct &= rows[e - 1] < rows[e];
    }
    if (!block_sorted) return EntryOrder::kUnsorted;
  }
  return distinct ? EntryOrder::kCanonical : EntryOrder::kSorted;
}

UpdateValidator::UpdateValidator(const ReduceSpec& spec, const CooView& entries, float weight)
    : spec_(spec),
      entries_(entries),
      weight_(UsesWeights(spec) ? weight : 1.0f),
      weight_status_(ValidateWeight(weight)) {
  if (weight_status_.ok() && !IsFloating(spec.layout.value_type)) {
    weight_status_ = CheckIntegerWeight(spec, weight_);
  }
}

absl::Status UpdateValidator::CheckRows() {
  SPARSEAGG_RETURN_IF_ERROR(weight_status_);
  if (order_ != EntryOrder::kUnknown) return absl::OkStatus();
  const uint64_t num_rows = spec_.layout.num_rows;
  for (uint64_t begin = 0; begin < entries_.nnz; begin += kBlock) {
    const uint64_t* block = entries_.rows.wide() + begin;
    const uint64_t count = std::min(kBlock, entries_.nnz - begin);
    if (AnyErrorBit(count, [=](uint64_t i) { return block[i] >= num_rows ? kErrorBit : 0; })) {
      return RowError(spec_, entries_, begin);
    }
  }
  order_ = OrderOf(entries_.rows.wide(), entries_.nnz);
  return absl::OkStatus();
}

absl::Status UpdateValidator::CheckValues(uint64_t end) {
  SPARSEAGG_RETURN_IF_ERROR(weight_status_);
  const absl::Status status = WithValueType(spec_.layout.value_type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if constexpr (ValueTraits<V>::kFloating) {
      return CheckFloats<V>(spec_, entries_, values_, end, weight_);
    } else {
      return absl::OkStatus();
    }
  });
  values_ = std::max(values_, end);
  return status;
}

absl::StatusOr<EntryOrder> UpdateValidator::Finish() {
  SPARSEAGG_RETURN_IF_ERROR(CheckRows());
  SPARSEAGG_RETURN_IF_ERROR(CheckValues(entries_.nnz * spec_.layout.row_width));
  if (!IsFloating(spec_.layout.value_type)) {
    SPARSEAGG_RETURN_IF_ERROR(WithValueType(spec_.layout.value_type, [&](auto tag) {
      using V = typename decltype(tag)::type;
      if constexpr (ValueTraits<V>::kFloating) {
        return absl::OkStatus();
      } else {
        return CheckAllIntegers<V>(spec_, entries_);
      }
    }));
  }
  return order_;
}

absl::StatusOr<EntryOrder> ValidateUpdate(const ReduceSpec& spec, const CooView& entries,
                                          float weight) {
  return UpdateValidator(spec, entries, weight).Finish();
}

}  // namespace sparseagg
