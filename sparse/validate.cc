#include "sparse/validate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/ops/all.h"
#include "sparse/slot_math.h"
#include "sparse/status.h"
#include "sparse/values.h"

namespace sparseagg {
namespace {

absl::Status Invalid(std::string_view reason, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

// "tensor "emb": entry 17 (row 812), value 3": where a value stands.
std::string Where(const ReduceSpec& spec, const CooView& entries, uint64_t entry, uint64_t column) {
  std::string text = absl::StrCat("tensor \"", spec.name, "\": entry ", entry, " (row ",
                                  entries.indices[entry], ")");
  if (spec.layout.row_width > 1) absl::StrAppend(&text, ", value ", column);
  return text;
}

absl::Status CheckRows(const ReduceSpec& spec, const CooView& entries) {
  for (uint64_t e = 0; e < entries.nnz; ++e) {
    if (entries.indices[e] >= spec.layout.num_rows) {
      return Invalid(
          "INDEX_OUT_OF_RANGE",
          absl::StrCat("tensor \"", spec.name, "\": index ", entries.indices[e], " at entry ", e,
                       " is not below ", spec.layout.num_rows, " rows"));
    }
  }
  return absl::OkStatus();
}

template <class V>
absl::Status CheckFloats(const ReduceSpec& spec, const CooView& entries, float weight) {
  const auto* values = static_cast<const V*>(entries.values);
  const uint64_t width = spec.layout.row_width;
  for (uint64_t i = 0; i < entries.nnz * width; ++i) {
    const double value = Widen(values[i]);
    if (!IsFiniteBits(value)) {
      return Invalid("NON_FINITE_VALUE",
                     absl::StrCat(Where(spec, entries, i / width, i % width), " is ",
                                  std::isnan(value) ? "NaN" : "infinite"));
    }
    // Products of narrower types always fit in f64.
    if (std::is_same_v<V, double> && !IsFiniteBits(Lift(values[i], weight))) {
      return Invalid("PRODUCT_OVERFLOW",
                     absl::StrCat(Where(spec, entries, i / width, i % width), ": ", value,
                                  " times the weight ", weight, " is beyond f64"));
    }
  }
  return absl::OkStatus();
}

// For min and max: the duplicates of one row must sum up within the type.
template <class V>
absl::Status CheckDuplicateSums(const ReduceSpec& spec, const CooView& entries) {
  const auto* values = static_cast<const V*>(entries.values);
  const uint64_t width = spec.layout.row_width;
  if (std::is_sorted(entries.indices, entries.indices + entries.nnz, std::less_equal<>()))
    return absl::OkStatus();
  std::vector<uint64_t> order(entries.nnz);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint64_t a, uint64_t b) { return entries.indices[a] < entries.indices[b]; });
  std::vector<Int128> sums(width);
  for (uint64_t i = 0; i < order.size();) {
    const uint64_t row = entries.indices[order[i]];
    std::fill(sums.begin(), sums.end(), 0);
    uint64_t last = order[i];
    for (; i < order.size() && entries.indices[order[i]] == row; ++i) {
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

template <class V>
absl::Status CheckIntegers(const ReduceSpec& spec, const CooView& entries, float weight) {
  if (weight > kIntegerWeightMax || weight != std::trunc(weight)) {
    return Invalid("INVALID_WEIGHT",
                   absl::StrCat("tensor \"", spec.name, "\" holds integers: the weight ", weight,
                                " must be a whole number of at most ", kIntegerWeightMax));
  }
  bool per_update = false;
  AllOps::With(spec.op, [&](auto op) { per_update = kPerUpdate<decltype(op)>; });
  if (!per_update || spec.integer_overflow == IntegerOverflow::kModular) return absl::OkStatus();
  return CheckDuplicateSums<V>(spec, entries);
}

}  // namespace

absl::Status ValidateWeight(float weight) {
  if (std::isfinite(weight) && weight >= 0) return absl::OkStatus();
  return Invalid("INVALID_WEIGHT",
                 absl::StrCat("the weight is ", weight, "; it must be finite and not negative"));
}

EntryOrder OrderOf(const uint64_t* rows, uint64_t nnz) {
  bool sorted = true;
  bool distinct = true;
  constexpr uint64_t kBlock = 4096;  // without an exit inside, so that the loop becomes vectors
  for (uint64_t begin = 1; begin < nnz && sorted; begin += kBlock) {
    const uint64_t end = std::min(nnz, begin + kBlock);
    for (uint64_t e = begin; e < end; ++e) {
      sorted &= rows[e - 1] <= rows[e];
      distinct &= rows[e - 1] < rows[e];
    }
  }
  if (!sorted) return EntryOrder::kUnsorted;
  return distinct ? EntryOrder::kCanonical : EntryOrder::kSorted;
}

absl::StatusOr<EntryOrder> ValidateUpdate(const ReduceSpec& spec, const CooView& entries,
                                          float weight) {
  SPARSEAGG_RETURN_IF_ERROR(ValidateWeight(weight));
  SPARSEAGG_RETURN_IF_ERROR(CheckRows(spec, entries));
  const absl::Status values = WithValueType(spec.layout.value_type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if constexpr (ValueTraits<V>::kFloating) {
      return CheckFloats<V>(spec, entries, weight);
    } else {
      return CheckIntegers<V>(spec, entries, weight);
    }
  });
  SPARSEAGG_RETURN_IF_ERROR(values);
  return OrderOf(entries.indices, entries.nnz);
}

}  // namespace sparseagg
