// The specification of a round and the selection of a reader as they come over the wire: refused,
// or taken as they were sent, by an engine with a small memory.
//
//   input := u8 kind, a RoundSpec (kind 'r') or an IndexSelection (kind 's')
#include "base/status.h"
#include "service/engine/engine.h"
#include "service/rpc/result/selection.h"
#include "service/rpc/wire/round_proto.h"
#include "sparse/backend.h"
#include "sparseagg/v1/aggregation.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/silence_protobuf.h"
#include "tests/support/manual_executor.h"

namespace sparseagg::fuzz {
namespace {

class Rounds {
 public:
  Rounds() : backend_(AllBackends().back().make({.memory_bytes = uint64_t{16} << 20}).value()) {
    EngineOptions options;
    options.executor = &executor_;
    options.limits.retry_horizon_ms = 0;  // the round's name is given again
    engine_ = MakeEngine(options, *backend_, *store_);
  }
  void Create(const v1::RoundSpec& proto) {
    const auto spec = FromProto(proto, Durability::kMemory);
    if (!spec.ok()) return;
    executor_.Advance(std::chrono::seconds(1));
    executor_.WaitUntilIdle();
    const auto round = engine_->CreateRound({.round_id = "r", .request_id = "", .spec = *spec});
    Require(ErrorReason(round.status()) != "ROUND_EXPIRED", "the name is not given again");
    if (!round.ok()) return;
    Require(ToProto(round->spec).SerializeAsString() == ToProto(*spec).SerializeAsString(),
            "the round has another specification");
    Require(engine_->AbortRound("rounds/r").ok() && engine_->DeleteRound("rounds/r").ok(),
            "the round cannot be deleted");
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_ = MakeMemoryStore();
  testing::ManualExecutor executor_;  // no threads: they would cost more than the inputs
  std::unique_ptr<Engine> engine_;
};

void Select(const v1::IndexSelection& selection) {
  const TensorSpec spec = {.name = "t", .dense_shape = {30, 20, 10}, .sparse_dim = 2};
  const auto rows = SelectedRows(selection, spec);
  if (!rows.ok()) return;
  for (const uint64_t row : *rows) Require(row < 600, "a selected row out of range");
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  static fuzz::Rounds rounds;
  fuzz::SilenceProtobuf();
  fuzz::FuzzInput input(data, size);
  const bool is_spec = input.Take<uint8_t>() == 'r';
  const std::string_view rest = input.Rest();
  v1::RoundSpec spec;
  v1::IndexSelection selection;
  if (is_spec) {
    if (spec.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) rounds.Create(spec);
  } else if (selection.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    fuzz::Select(selection);
  }
  return 0;
}
