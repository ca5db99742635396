// The same updates through a plan of a back end and through the reference: the same bytes, or the
// same refusal. The input's last byte says which plan, so that one execution costs one reduction.
#include "sparse/ops/all.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/workload.h"

namespace sparseagg::fuzz {
namespace {

std::vector<testing::Update> TakeUpdates(const ReduceSpec& spec, FuzzInput& input) {
  std::vector<testing::Update> updates(1 + input.Below(4));
  for (testing::Update& update : updates) {
    update.weight = input.Below(2) == 0 ? static_cast<float>(input.Below(8)) : input.Take<float>();
    const size_t nnz = input.Below(20);
    for (size_t e = 0; e < nnz; ++e) {
      update.rows.push_back(input.Take<uint16_t>() % spec.layout.num_rows);
      const size_t before = update.values.size();
      const std::string_view bytes = input.Bytes(spec.layout.row_bytes());
      update.values.resize(before + spec.layout.row_bytes());
      if (!bytes.empty()) std::memcpy(update.values.data() + before, bytes.data(), bytes.size());
    }
  }
  return updates;
}

std::vector<std::unique_ptr<Backend>> MakeBackends() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const BackendFactory& factory : AllBackends()) {
    auto backend = factory.make({.threads = 1, .memory_bytes = uint64_t{1} << 30});
    if (backend.ok()) backends.push_back(*std::move(backend));
  }
  return backends;
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  static const auto kBackends = fuzz::MakeBackends();
  fuzz::FuzzInput input(data, size);
  TensorSpec tensor;
  tensor.name = "t";
  tensor.op = AllOps::kNames[input.Below(AllOps::kNames.size())];
  tensor.value_type = kAllValueTypes[input.Below(std::size(kAllValueTypes))];
  tensor.integer_overflow =
      input.Below(2) == 0 ? IntegerOverflow::kChecked : IntegerOverflow::kModular;
  tensor.dense_shape = {1 + input.Take<uint16_t>() % 256,  // few: clearing them takes the time
                        1 + static_cast<int64_t>(input.Below(9))};
  tensor.sparse_dim = 1;
  const auto spec = MakeReduceSpec(tensor);
  if (!spec.ok()) return 0;
  const auto updates = fuzz::TakeUpdates(*spec, input);
  const size_t choice = size == 0 ? 0 : data[size - 1];
  Backend& backend = *kBackends[choice % kBackends.size()];
  const auto plans = testing::PlansFor(backend, *spec);
  const std::string& plan = plans[choice / kBackends.size() % plans.size()];
  const auto expected = testing::Reduce(*kBackends.back(), *spec, updates);
  const auto stage = choice < 128 ? &testing::StageCopy : &testing::StagePackedCopy;
  const auto actual = testing::Reduce(backend, *spec, updates, plan, stage);
  const std::string difference = testing::Difference(expected, actual);
  fuzz::Require(difference.empty(), backend.info().name + " " + plan + ": " + difference);
  return 0;
}
