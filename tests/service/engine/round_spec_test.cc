#include "service/engine/round/round_spec.h"

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

TEST(RoundSpecTest, ResultSpecDescribesWhatTheCoreReports) {
  const std::vector<std::pair<std::vector<int64_t>, uint32_t>> shapes = {
      {{}, 0}, {{7}, 0}, {{2, 3}, 0}, {{7}, 1}, {{7, 3}, 1}, {{7, 3}, 2}, {{4, 5, 6}, 2}};
  for (const char* op : {"sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"}) {
    for (const auto& [shape, sparse_dim] : shapes) {
      const TensorSpec spec{.name = "t",
                            .value_type = ValueType::kF32,
                            .dense_shape = shape,
                            .sparse_dim = sparse_dim,
                            .op = op};
      const auto reduce = MakeReduceSpec(spec);
      ASSERT_TRUE(reduce.ok()) << reduce.status();
      const TensorSpec result = ResultSpec(spec);
      EXPECT_EQ(*MakeLayout(result), ResultLayout(*reduce)) << op;
      EXPECT_EQ(result.sparse_dim, sparse_dim);
    }
  }
}

TEST(RoundSpecTest, SpecsAreTheSameOnlyInEveryField) {
  const RoundSpec spec{.tensors = {testing::Sparse("t", 4)}};
  EXPECT_TRUE(SameSpec(spec, spec));
  const std::vector<std::function<void(RoundSpec&)>> changes = {
      [](auto& s) { s.durability = Durability::kDurable; },
      [](auto& s) { s.tensors.clear(); },
      [](auto& s) { s.tensors[0].name = "u"; },
      [](auto& s) { s.tensors[0].value_type = ValueType::kF64; },
      [](auto& s) { s.tensors[0].dense_shape = {5}; },
      [](auto& s) { s.tensors[0].sparse_dim = 0; },
      [](auto& s) { s.tensors[0].op = "min"; },
      [](auto& s) { s.tensors[0].integer_overflow = IntegerOverflow::kModular; },
      [](auto& s) { s.tensors[0].plan = "sweep"; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    RoundSpec other = spec;
    changes[i](other);
    EXPECT_FALSE(SameSpec(spec, other)) << "change " << i;
  }
}

}  // namespace
}  // namespace sparseagg
