#include "tests/support/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/slot_math.h"
#include "sparse/validate.h"
#include "sparse/values.h"

namespace sparseagg::testing {
namespace {

using Random = std::mt19937_64;

uint64_t Below(Random& random, uint64_t limit) { return random() % limit; }

std::vector<uint64_t> DistinctRows(uint64_t nnz, uint64_t first, uint64_t num_rows,
                                   Random& random) {
  // An arithmetic walk with a stride coprime to the range: distinct without a set.
  uint64_t stride = Below(random, num_rows) | 1;
  while (std::gcd(stride, num_rows) != 1) stride += 2;
  std::vector<uint64_t> rows(nnz);
  uint64_t row = Below(random, num_rows);
  for (uint64_t& r : rows) {
    r = first + row;
    row = (row + stride) % num_rows;
  }
  return rows;
}

std::vector<uint64_t> MakeRows(const ReduceSpec& spec, const Shape& shape, uint32_t contributor,
                               Random& random) {
  const uint64_t num_rows = spec.layout.num_rows;
  const uint64_t distinct = std::min(shape.nnz, num_rows);
  std::vector<uint64_t> rows;
  switch (shape.distribution) {
    case Distribution::kDistinct:
    case Distribution::kSorted:
    case Distribution::kReversed:
      rows = DistinctRows(distinct, 0, num_rows, random);
      break;
    case Distribution::kIdentical: {
      Random same(7);
      rows = DistinctRows(distinct, 0, num_rows, same);
      break;
    }
    case Distribution::kDisjoint: {
      const uint64_t part = std::max<uint64_t>(1, num_rows / shape.contributors);
      const uint64_t first = std::min(num_rows - 1, part * contributor);
      rows = DistinctRows(std::min(shape.nnz, std::min(part, num_rows - first)), first,
                          std::min(part, num_rows - first), random);
      break;
    }
    case Distribution::kAllEqual:
      rows.assign(shape.nnz, num_rows - 1);
      break;
    case Distribution::kZipf:
      for (uint64_t i = 0; i < shape.nnz; ++i) {
        const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
        rows.push_back(
            std::min<uint64_t>(num_rows - 1, static_cast<uint64_t>(std::pow(u, -0.9)) - 1));
      }
      break;
    case Distribution::kOneHotRow:
      for (uint64_t i = 0; i < shape.nnz; ++i)
        rows.push_back(i % 2 == 0 ? num_rows / 2 : Below(random, num_rows));
      break;
  }
  if (shape.distribution == Distribution::kSorted) std::sort(rows.begin(), rows.end());
  if (shape.distribution == Distribution::kReversed)
    std::sort(rows.begin(), rows.end(), std::greater<>());
  return rows;
}

// Returns the largest number of a floating type.
template <class V>
double Largest() {
  constexpr FloatFormat kFormat = ValueTraits<V>::kFormat;
  return std::ldexp(2.0 - std::ldexp(1.0, 1 - kFormat.precision), kFormat.max_exponent);
}

template <class V>
V MakeFloat(Values kind, uint64_t i, Random& random) {
  using Traits = ValueTraits<V>;
  const auto round = [](double x) { return Traits::Narrow(RoundDouble(x, Traits::kFormat)); };
  switch (kind) {
    case Values::kNormal:
      return round(std::normal_distribution<double>(0, 1e-3)(random));
    case Values::kHostile:
      for (;;) {
        const uint64_t bits = random();
        V value;
        std::memcpy(&value, &bits, sizeof(value));
        if (std::isfinite(Widen(value))) return value;
      }
    case Values::kCancelling: {
      const double large = std::ldexp(1.0, Traits::kFormat.max_exponent - 4);
      const double small =
          std::ldexp(1.0 + static_cast<double>(Below(random, 8)), Traits::kFormat.min_exponent);
      return round(i % 4 == 0 ? large : i % 4 == 1 ? -large : i % 4 == 2 ? small : 1.0);
    }
    case Values::kTies: {
      const double half = std::ldexp(1.0, -Traits::kFormat.precision);
      return round(i % 3 == 0 ? 1.0 : (i % 3 == 1 ? half : -3 * half));
    }
    case Values::kSubnormal: {
      const double least = std::ldexp(1.0, Traits::kFormat.min_exponent);
      const auto multiple = static_cast<double>(Below(random, i % 5 == 0 ? 2 : 100));
      return Traits::Narrow(random() % 2 == 0 ? -multiple * least : multiple * least);
    }
    case Values::kOverflowing:
      // Three times as much up as down, so that some sums stay beyond the range.
      return Traits::Narrow(random() % 4 == 0 ? -Largest<V>() : Largest<V>());
    case Values::kNegativeZeros:
      return Traits::Narrow(random() % 8 == 0 ? 1.0 : random() % 2 == 0 ? -0.0 : 0.0);
    case Values::kFarApart: {
      const double sign = random() % 2 == 0 ? -1.0 : 1.0;
      const int offset = static_cast<int>(Below(random, 3));
      const double large = std::ldexp(1.0, Traits::kFormat.max_exponent - 1 - offset);
      const double small = std::ldexp(1.0, Traits::kFormat.min_exponent + offset);
      return Traits::Narrow(sign * (random() % 2 == 0 ? large : small));
    }
    case Values::kSmall:
      break;
  }
  return round(static_cast<double>(Below(random, 17)) - 8);
}

template <class V>
V MakeInteger(Values kind, uint64_t i, Random& random) {
  switch (kind) {
    case Values::kHostile:
      return static_cast<V>(random());
    case Values::kCancelling:
      return i % 2 == 0 ? std::numeric_limits<V>::max() : std::numeric_limits<V>::min();
    default:  // the others are about floating types
      break;
  }
  return static_cast<V>(Below(random, 2001)) - (std::numeric_limits<V>::min() < 0 ? V{1000} : V{0});
}

template <class V>
std::vector<std::byte> ValuesOf(uint64_t count, Values kind, Random& random) {
  std::vector<std::byte> bytes(count * sizeof(V));
  for (uint64_t i = 0; i < count; ++i) {
    V value;
    if constexpr (ValueTraits<V>::kFloating) {
      value = MakeFloat<V>(kind, i, random);
    } else {
      value = MakeInteger<V>(kind, i, random);
    }
    std::memcpy(bytes.data() + i * sizeof(V), &value, sizeof(V));
  }
  return bytes;
}

template <class T>
T ValueOrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw StatusError(value.status());
  return *std::move(value);
}

}  // namespace

float MakeWeight(const ReduceSpec& spec, Values kind, Random& random) {
  const uint64_t draw = Below(random, 8);
  if (draw == 0) return 0.0f;
  if (spec.layout.value_type == ValueType::kF64 && kind != Values::kNormal &&
      kind != Values::kSmall) {
    // Products stay finite; those of the smallest numbers are rounded, some of them to zero.
    return draw < 4 ? 1.0f : std::ldexp(1.0f, -static_cast<int>(Below(random, 4)));
  }
  if (draw < 4 || kind == Values::kSmall) return 1.0f;
  if (!IsFloating(spec.layout.value_type)) return static_cast<float>(Below(random, 1000));
  if (kind == Values::kHostile && spec.layout.value_type != ValueType::kF64) {
    return std::ldexp(1.0f + static_cast<float>(Below(random, 1 << 20)) * 0x1p-20f,
                      static_cast<int>(Below(random, 200)) - 100);
  }
  return static_cast<float>(Below(random, 100000)) / 7.0f;
}

std::vector<std::byte> MakeValues(const ReduceSpec& spec, uint64_t count, Values kind,
                                  Random& random) {
  return WithValueType(spec.layout.value_type, [&](auto tag) {
    return ValuesOf<typename decltype(tag)::type>(count, kind, random);
  });
}

std::vector<Update> MakeUpdates(const ReduceSpec& spec, const Shape& shape, uint64_t seed) {
  Random random(seed);
  std::vector<Update> updates(shape.contributors);
  for (uint32_t u = 0; u < shape.contributors; ++u) {
    updates[u].weight = MakeWeight(spec, shape.values, random);
    updates[u].rows = MakeRows(spec, shape, u, random);
    const uint64_t count = updates[u].rows.size() * spec.layout.row_width;
    updates[u].values = MakeValues(spec, count, shape.values, random);
  }
  return updates;
}

ReduceSpec MakeSpec(const std::string& op, ValueType type, uint64_t num_rows, uint32_t row_width) {
  ReduceSpec spec;
  spec.name = "t";
  spec.layout = {num_rows, row_width, type};
  spec.op = op;
  return spec;
}

StagedUpdate StageCopy(const Aggregator& aggregator, const Update& update) {
  StagedUpdate staged = ValueOrThrow(aggregator.Stage(update.rows.size()));
  if (!update.rows.empty()) {
    std::memcpy(staged.entries.rows.wide(), update.rows.data(),
                update.rows.size() * sizeof(uint64_t));
    std::memcpy(staged.entries.values, update.values.data(), update.values.size());
  }
  return staged;
}

StagedUpdate StagePackedCopy(const Aggregator& aggregator, const Update& update) {
  const EntryOrder order = OrderOf(update.rows.data(), update.rows.size());
  if (order == EntryOrder::kUnsorted) return StageCopy(aggregator, update);
  std::string rows;
  AppendPackedIndices(update.rows.data(), update.rows.size(), rows);
  StagedUpdate staged =
      ValueOrThrow(aggregator.StageIncremental(update.rows.size(), {.packed_bytes = rows.size()}));
  const std::span<char> packed = staged.entries.rows.packed();
  if (packed.empty()) return StageCopy(aggregator, update);
  std::memcpy(packed.data(), rows.data(), rows.size());
  std::memcpy(staged.entries.values, update.values.data(), update.values.size());
  return staged;
}

StagedUpdate StageNarrowCopy(const Aggregator& aggregator, const Update& update) {
  const EntryOrder order = OrderOf(update.rows.data(), update.rows.size());
  if (order == EntryOrder::kUnsorted) return StageCopy(aggregator, update);
  StagedUpdate staged =
      ValueOrThrow(aggregator.StageIncremental(update.rows.size(), {.narrow = true}));
  NarrowRows* const narrow = staged.entries.rows.narrow();
  if (narrow == nullptr) return StageCopy(aggregator, update);
  RowFlags flags;
  const auto* rows = reinterpret_cast<const char*>(update.rows.data());
  EXPECT_TRUE(narrow->Append<int64_t>(rows, update.rows.size(), ~uint64_t{0}, flags));
  std::memcpy(staged.entries.values, update.values.data(), update.values.size());
  return staged;
}

std::unique_ptr<Aggregator> NewAggregator(Backend& backend, const ReduceSpec& spec,
                                          const std::string& plan) {
  return ValueOrThrow(
      backend.NewAggregator(ValueOrThrow(MakePlan(spec, {}, backend.info(), plan))));
}

std::vector<std::string> PlansFor(const Backend& backend, const ReduceSpec& spec) {
  std::vector<std::string> plans = backend.info().plans;
  std::erase_if(plans, [&](const std::string& plan) {
    const absl::Status made = MakePlan(spec, {}, backend.info(), plan).status();
    return absl::IsResourceExhausted(made);
  });
  return plans;
}

absl::StatusOr<Aggregate> Reduce(Backend& backend, const ReduceSpec& spec,
                                 const std::vector<Update>& updates, const std::string& plan,
                                 StagedUpdate (*stage)(const Aggregator&, const Update&)) try {
  const auto aggregator = NewAggregator(backend, spec, plan);
  for (const Update& update : updates) {
    const CooView entries{spec.layout, update.rows.size(), update.rows.data(),
                          update.values.data()};
    const auto order = ValidateUpdate(spec, entries, update.weight);
    if (!order.ok()) continue;
    StagedUpdate staged = stage(*aggregator, update);
    staged.order = *order;
    const absl::Status status = aggregator->Accumulate(std::move(staged), update.weight);
    if (!status.ok()) return status;
  }
  return std::move(*aggregator).Report();
} catch (const StatusError& error) {
  return error.status();
}

std::string Describe(const absl::StatusOr<Aggregate>& result) {
  if (!result.ok()) return result.status().ToString();
  const SparseTensor& tensor = result->tensor;
  return absl::StrCat(tensor.nnz(), " x ", tensor.layout.row_width, " ",
                      std::string(ValueTypeName(tensor.layout.value_type)), ", ",
                      result->infinite_values, " infinite, of ", result->addends, " entries");
}

std::string Difference(const absl::StatusOr<Aggregate>& expected,
                       const absl::StatusOr<Aggregate>& actual) {
  if (Describe(expected) != Describe(actual)) {
    return absl::StrCat("expected ", Describe(expected), ", got ", Describe(actual));
  }
  if (!expected.ok()) return "";
  const SparseTensor& a = expected->tensor;
  const SparseTensor& b = actual->tensor;
  for (size_t i = 0; i < a.indices.size(); ++i) {
    if (a.indices[i] != b.indices[i]) {
      return absl::StrCat("row ", i, ": expected index ", a.indices[i], ", got ", b.indices[i]);
    }
  }
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i] != b.values[i]) {
      const size_t value = i / SizeOf(a.layout.value_type);
      return absl::StrCat("value ", value % a.layout.row_width, " of index ",
                          a.indices[value / a.layout.row_width], ": byte ", i, " differs");
    }
  }
  return "";
}

}  // namespace sparseagg::testing
