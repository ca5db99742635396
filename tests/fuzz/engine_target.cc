#include "tests/fuzz/engine_target.h"

#include "sparse/reference_backend.h"
#include "tests/fuzz/fuzz_input.h"

namespace sparseagg::fuzz {
namespace {

constexpr char kRound[] = "rounds/r";

RoundSpec Spec() {
  RoundSpec spec;
  spec.tensors = {
      {.name = "s", .value_type = ValueType::kF32, .dense_shape = {100}, .sparse_dim = 1},
      {.name = "w", .value_type = ValueType::kI32, .dense_shape = {10, 10, 3}, .sparse_dim = 2},
      {.name = "d", .value_type = ValueType::kF64, .dense_shape = {4}, .sparse_dim = 0}};
  return spec;
}

}  // namespace

EngineTarget::EngineTarget()
    : backend_(MakeReferenceBackend({.memory_bytes = uint64_t{64} << 20}).value()),
      store_(MakeMemoryStore()) {
  EngineOptions options;
  options.executor = &executor_;
  options.limits.update_bytes_max = 1 << 20;
  options.limits.staging_bytes_max = 4 << 20;
  options.limits.open_uploads_max = 4;
  options.limits.retry_horizon_ms = 0;  // the round's name is given again
  engine_ = MakeEngine(options, *backend_, *store_);
}

Engine& EngineTarget::EngineWithRound() {
  if (fresh_) return *engine_;
  RunTasks();
  if (engine_->GetRound(kRound).ok()) {
    Require(engine_->AbortRound(kRound).ok() && engine_->DeleteRound(kRound).ok(),
            "the round cannot be deleted");
  }
  Require(engine_->CreateRound({.round_id = "r", .request_id = "", .spec = Spec()}).ok(),
          "the round cannot be created");
  fresh_ = true;
  counted_ = 0;
  return *engine_;
}

void EngineTarget::Note(const UpdateHeader& header, const absl::StatusOr<Receipt>& receipt) {
  if (!receipt.ok()) return;
  Require(receipt->round == header.round && receipt->contributor == header.contributor &&
              receipt->update_id == header.update_id && receipt->digest.size() == 32,
          "a receipt for another update");
  if (!receipt->duplicate) {
    fresh_ = false;
    Require(receipt->sequence == ++counted_, "a sequence number out of order");
  }
  Require(receipt->sequence >= 1 && receipt->sequence <= counted_, "a sequence that was not given");
}

void EngineTarget::RunTasks() {
  executor_.Advance(std::chrono::seconds(1));
  executor_.WaitUntilIdle();
}

void EngineTarget::CheckBooks() {
  RunTasks();
  const auto round = engine_->GetRound(kRound);
  Require(round.ok() && round->state == RoundState::kOpen, "the round is not open");
  Require(round->contributors == counted_, "other contributors than receipts");
}

}  // namespace sparseagg::fuzz
