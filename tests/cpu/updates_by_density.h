// Updates that hold each row with a given probability, for tests of packed and of narrow rows.
#ifndef SPARSEAGG_TESTS_CPU_UPDATES_BY_DENSITY_H_
#define SPARSEAGG_TESTS_CPU_UPDATES_BY_DENSITY_H_

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {

struct DensityCase {
  const char* name;
  double density;
  ValueType type;
  Values values;
  bool repeats = false;
  uint64_t without_each = 0;  // no update holds a multiple of it
};

// Test names and messages show this.
inline std::ostream& operator<<(std::ostream& out, const DensityCase& c) { return out << c.name; }

// Four updates of a case for an operator, the third of which has weight 0.
class UpdatesByDensity : public ::testing::TestWithParam<std::tuple<DensityCase, const char*>> {
 public:
  static std::string NameOf(const ::testing::TestParamInfo<ParamType>& info) {
    return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
  }

 protected:
  // The last update has none of the rows before `last_begin`.
  UpdatesByDensity(uint64_t num_rows, uint64_t last_begin, uint64_t seed) {
    const auto& [c, op] = GetParam();
    spec_ = MakeSpec(op, c.type, num_rows, 1);
    std::mt19937_64 random(seed);
    std::bernoulli_distribution held(c.density);
    for (int u = 0; u < 4; ++u) {
      Update& update = updates_.emplace_back();
      update.weight = u == 2 ? 0 : MakeWeight(spec_, c.values, random);
      for (uint64_t row = 0; row < num_rows; ++row) {
        if (c.density < 1 && !held(random)) continue;
        if (u == 3 && row < last_begin) continue;
        if (c.without_each != 0 && row % c.without_each == 0) continue;
        update.rows.insert(update.rows.end(), c.repeats && random() % 5 == 0 ? 2 : 1, row);
      }
      update.values = MakeValues(spec_, update.rows.size(), c.values, random);
    }
    expected_ = Reduce(*reference_, spec_, updates_);
    EXPECT_TRUE(expected_.ok()) << expected_.status();
  }

  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  ReduceSpec spec_;
  std::vector<Update> updates_;
  absl::StatusOr<Aggregate> expected_ = Aggregate{};
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CPU_UPDATES_BY_DENSITY_H_
