// A result is a pure function of the accepted (weight, update) pairs: neither order nor batching,
// splitting or merging of the same updates changes a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

struct Case {
  ReduceSpec spec;
  std::vector<Update> updates;
  absl::StatusOr<Aggregate> expected = Aggregate{};
};

class OrderTest : public ::testing::TestWithParam<std::tuple<std::string_view, ValueType, Values>> {
 protected:
  OrderTest() {
    for (const BackendFactory& factory : AllBackends()) {
      auto backend = factory.make({.threads = 3});
      if (backend.ok()) backends_.push_back(*std::move(backend));
    }
    const auto [op, type, values] = GetParam();
    case_.spec = MakeSpec(std::string(op), type, 200, 2);
    // Checked integers this large would all be refused or fail; with modular ones differences stay
    // visible.
    bool is_mean = false;
    AllOps::With(op, [&](auto known) { is_mean = decltype(known)::kIsMean; });
    if (values != Values::kNormal && !is_mean)
      case_.spec.integer_overflow = IntegerOverflow::kModular;
    case_.updates = MakeUpdates(case_.spec, {150, 16, Distribution::kZipf, values}, 42);
    // Keep only valid updates, so that the splits below start from accepted ones.
    const auto aggregator = NewAggregator(*reference_, case_.spec);
    std::erase_if(case_.updates, [&](const Update& update) {
      return !ValidateUpdate(case_.spec, StageCopy(*aggregator, update).entries.view(),
                             update.weight)
                  .ok();
    });
    EXPECT_GE(case_.updates.size(), 8u);
    case_.expected = Reduce(*reference_, case_.spec, case_.updates);
  }

  // Calls a function for each back end and plan.
  template <class F>
  void ForEachPlan(const F& f) {
    for (const auto& backend : backends_) {
      for (const std::string& plan : backend->info().plans) f(*backend, plan);
    }
  }

  void ExpectExpected(const absl::StatusOr<Aggregate>& actual, const std::string& what) {
    EXPECT_EQ(Difference(case_.expected, actual), "") << what;
  }

  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  std::vector<std::unique_ptr<Backend>> backends_;
  Case case_;
};

TEST_P(OrderTest, PermutingTheUpdatesChangesNoBit) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(case_.updates.begin(), case_.updates.end(), random);
    ForEachPlan([&](Backend& backend, const std::string& plan) {
      ExpectExpected(Reduce(backend, case_.spec, case_.updates, plan),
                     absl::StrCat(plan, " permutation ", i));
    });
  }
}

TEST_P(OrderTest, PermutingTheEntriesOfAnUpdateChangesNoBit) {
  std::mt19937_64 random(6);
  const uint64_t row_bytes = case_.spec.layout.row_bytes();
  for (Update& update : case_.updates) {
    Update shuffled = update;
    std::vector<size_t> order(update.rows.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i = 0; i < order.size(); ++i) {
      shuffled.rows[i] = update.rows[order[i]];
      std::copy_n(update.values.begin() + order[i] * row_bytes, row_bytes,
                  shuffled.values.begin() + i * row_bytes);
    }
    update = shuffled;
  }
  ForEachPlan([&](Backend& backend, const std::string& plan) {
    ExpectExpected(Reduce(backend, case_.spec, case_.updates, plan), plan);
  });
}

TEST_P(OrderTest, FoldingAfterEveryUpdateChangesNoBit) {
  ForEachPlan([&](Backend& backend, const std::string& plan) {
    const auto aggregator = NewAggregator(backend, case_.spec, plan);
    for (const Update& update : case_.updates) {
      ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update), update.weight).ok());
      ASSERT_TRUE(aggregator->Snapshot().ok());  // folds the waiting entries
    }
    ExpectExpected(std::move(*aggregator).Report(), plan);
  });
}

TEST_P(OrderTest, MergingPartialsOfAnyBackEndChangesNoBit) {
  ForEachPlan([&](Backend& backend, const std::string& plan) {
    for (const auto& other : backends_) {
      // Three partial aggregates, made by another back end, are merged with a part accumulated
      // here.
      const auto target = NewAggregator(backend, case_.spec, plan);
      std::vector<std::unique_ptr<Aggregator>> parts;
      for (int p = 0; p < 3; ++p) parts.push_back(NewAggregator(*other, case_.spec));
      for (size_t u = 0; u < case_.updates.size(); ++u) {
        Aggregator& to = u % 4 == 3 ? *target : *parts[u % 4];
        ASSERT_TRUE(to.Accumulate(StageCopy(to, case_.updates[u]), case_.updates[u].weight).ok());
      }
      for (const auto& part : parts) {
        const auto partial = part->Snapshot();
        ASSERT_TRUE(partial.ok()) << partial.status();
        ASSERT_TRUE(target->Merge(*partial).ok());
      }
      ExpectExpected(std::move(*target).Report(), absl::StrCat(other->info().name, " into ", plan));
    }
  });
}

TEST_P(OrderTest, SplittingAnUpdateByRowsChangesNoBitWhereItsWeightIsNotDividedBy) {
  if (case_.spec.op == "weighted_mean")
    return;  // two contributors would weigh twice: see the next test
  const uint64_t row_bytes = case_.spec.layout.row_bytes();
  std::vector<Update> split;
  for (const Update& update : case_.updates) {
    Update halves[2];
    for (Update& half : halves) half.weight = update.weight;
    for (size_t e = 0; e < update.rows.size(); ++e) {
      Update& half = halves[update.rows[e] % 2];
      half.rows.push_back(update.rows[e]);
      half.values.insert(half.values.end(), update.values.begin() + e * row_bytes,
                         update.values.begin() + (e + 1) * row_bytes);
    }
    split.insert(split.end(), std::begin(halves), std::end(halves));
  }
  ForEachPlan([&](Backend& backend, const std::string& plan) {
    ExpectExpected(Reduce(backend, case_.spec, split, plan), plan);
  });
}

TEST_P(OrderTest, SplittingAWeightChangesNoBitOfSumsAndMeans) {
  const auto [op, type, values] = GetParam();
  // f64 products are rounded, so w*x is not w1*x + w2*x there; count, min and max ignore weights,
  // but not contributors.
  if (type == ValueType::kF64 || op == "count") return;
  std::vector<Update> split;
  for (const Update& update : case_.updates) {
    Update one = update;
    Update two = update;
    one.weight = IsFloating(type) ? update.weight / 4 : std::trunc(update.weight / 4);
    two.weight = update.weight - one.weight;
    // Only exact splits: both parts are numbers of f32, and so is their sum.
    if (static_cast<double>(one.weight) + static_cast<double>(two.weight) !=
        static_cast<double>(update.weight))
      two.weight = -1;
    if (two.weight < 0) {
      split.push_back(update);
    } else {
      split.push_back(one);
      split.push_back(two);
    }
  }
  uint64_t addends = 0;  // entries that are sent twice are added twice
  for (const Update& update : split) addends += update.rows.size();
  if (case_.expected.ok()) case_.expected->addends = addends;
  ForEachPlan([&](Backend& backend, const std::string& plan) {
    ExpectExpected(Reduce(backend, case_.spec, split, plan), plan);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Everything, OrderTest,
    ::testing::Combine(::testing::ValuesIn(AllOps::kNames), ::testing::ValuesIn(kAllValueTypes),
                       ::testing::Values(Values::kNormal, Values::kHostile, Values::kCancelling)),
    [](const auto& info) {
      return absl::StrCat(std::string(std::get<0>(info.param)), "_",
                          std::string(ValueTypeName(std::get<1>(info.param))), "_",
                          static_cast<int>(std::get<2>(info.param)));
    });

}  // namespace
}  // namespace sparseagg::testing
