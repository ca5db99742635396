// The steps of a simulation: requests of every kind, tasks, faults and time.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/service/engine/testing.h"
#include "tests/sim/simulation.h"

namespace sparseagg::sim {
namespace {

constexpr int64_t kRows = 12;

// Each round has a tensor of its own, by which the device recognises it.
TensorSpec SpecOf(const std::string& round, const std::string& op) {
  return testing::Sparse("t-" + round.substr(round.find('/') + 1), kRows, op);
}

testing::TestUpdate Encode(const Update& update, const std::string& op) {
  std::vector<int64_t> rows;
  std::vector<float> values;
  for (const auto& [row, value] : EntriesOf(update)) {
    rows.push_back(row);
    values.push_back(static_cast<float>(value));
  }
  if (IsLong(update)) {
    rows.resize(rows.size() + 12'000, 0);
    values.resize(rows.size(), 0);
  }
  if (update.flaw == "INDEX_OUT_OF_RANGE" || update.flaw == "NON_FINITE_VALUE") {
    rows.push_back(update.flaw == "INDEX_OUT_OF_RANGE" ? kRows : 0);
    values.push_back(update.flaw == "INDEX_OUT_OF_RANGE" ? 1
                                                         : std::numeric_limits<float>::infinity());
  }
  TensorSpec spec = SpecOf(update.round, op);
  if (update.flaw == "UNKNOWN_TENSOR") spec.name = "x";
  testing::TestUpdate encoded(update.round, update.contributor, update.weight, update.update_id);
  encoded.Add(spec, rows, values);
  return encoded;
}

RoundPolicy ToEngine(const Policy& policy) {
  RoundPolicy engine;
  engine.goal_contributors = policy.goal;
  engine.grace = policy.grace;
  engine.min_contributors = policy.min;
  engine.max_contributors = policy.max;
  if (policy.open_for.count() != 0) engine.open_for = policy.open_for;
  return engine;
}

}  // namespace

Policy Simulation::RandomPolicy() {
  Policy policy;
  if (Chance(50)) return policy;
  if (Chance(50)) policy.goal = 2 + Below(4);
  if (policy.goal != 0 && Chance(50)) policy.grace = std::chrono::seconds(1 + Below(600));
  if (Chance(30)) policy.min = policy.goal == 0 ? 1 + Below(4) : 1 + Below(policy.goal);
  if (Chance(30)) policy.max = std::max(policy.goal, policy.min) + Below(3);
  if (Chance(40)) policy.open_for = std::chrono::minutes(1 + Below(60));
  return policy;
}

Update Simulation::RandomUpdate() {
  constexpr float kWeights[] = {0.5f, 1, 2, 3};
  constexpr const char* kFlaws[] = {"INVALID_WEIGHT", "INDEX_OUT_OF_RANGE", "NON_FINITE_VALUE",
                                    "UNKNOWN_TENSOR"};
  Update update;
  update.round = RoundName();
  update.contributor = "c" + std::to_string(Below(8));
  update.update_id = Chance(85) ? "u0" : "u1";
  update.variant = Chance(80) ? 0 : static_cast<int>(Below(4));
  // Mostly the contributor's usual variant, so that a resend has the same bytes.
  update.weight = kWeights[Chance(90) ? update.contributor.back() % 4 : Below(4)];
  if (Chance(12)) update.flaw = kFlaws[Below(4)];
  if (update.flaw == "INVALID_WEIGHT") update.weight = -1;
  return update;
}

absl::StatusOr<Receipt> Simulation::Send(const Update& update) {
  testing::TestUpdate encoded = Encode(update, "sum");
  return engine_->Submit(encoded.header, encoded.tensors());
}

std::string Simulation::Step() {
  ++counts_.steps;
  if (Chance(2)) full_ = !full_;
  before_ = model_;
  disk_ = {};
  if (Chance(6)) disk_.fail_at = static_cast<int>(Below(6));
  if (Chance(4)) disk_.crash_at = static_cast<int>(Below(8));
  using Kind = std::string (Simulation::*)();
  constexpr std::pair<int, Kind> kKinds[] = {
      {8, &Simulation::Create},   {38, &Simulation::Submit},    {10, &Simulation::SubmitInChunks},
      {5, &Simulation::Seal},     {2, &Simulation::Abort},      {4, &Simulation::Delete},
      {22, &Simulation::RunTask}, {1, &Simulation::LoseDevice}, {6, &Simulation::PassTime},
      {4, &Simulation::Settle}};
  auto drawn = static_cast<int>(Below(100));
  for (const auto& [share, kind] : kKinds) {
    drawn -= share;
    if (drawn >= 0) continue;
    std::string differs = (this->*kind)();
    if (differs.empty()) differs = Compare();
    if (!differs.empty()) return differs;
    break;
  }
  if (!disk_.crashed && Chance(1)) CopyDisk();  // between two steps
  return disk_.crashed ? Recover() : "";
}

std::string Simulation::Create() {
  const std::string name = RoundName();
  Round round;
  round.durable = Chance(80);
  round.op = Chance(50) ? "sum" : "weighted_mean";
  if (Chance(30)) round.request_id = "q" + std::to_string(Below(4));
  round.policy = RandomPolicy();
  round.created = now_;
  log_(absl::StrCat("create ", name, round.durable ? " durable " : " ", round.op, " ",
                    round.request_id, " goal ", round.policy.goal, " grace ",
                    round.policy.grace.count(), " min ", round.policy.min, " max ",
                    round.policy.max, " open for ", round.policy.open_for.count()));
  const bool is_new = !model_.rounds.contains(name);
  const std::string due = model_.Create(name, round);
  const auto created = engine_->CreateRound(
      {.round_id = name.substr(name.find('/') + 1),
       .request_id = round.request_id,
       .spec = {.tensors = {SpecOf(name, round.op)},
                .durability = round.durable ? Durability::kDurable : Durability::kMemory,
                .policy = ToEngine(round.policy)}});
  if (created.ok() && is_new) {
    backend_.lost.erase(created->spec.tensors[0].name);
    WatchRound(name);
  }
  return CheckReason(due, created.status());
}

std::string Simulation::Submit() {
  const Update update = RandomUpdate();
  log_(absl::StrCat("submit ", update.round, " ", update.contributor, " ", update.update_id, " ",
                    update.variant, " ", update.weight, " ", update.flaw));
  if (MayBeClosed(update.round)) return "";
  Answer due = model_.ExpectedAnswer(update, now_);
  backend_.stage_fails = Chance(3);
  // Memory is reserved for an update that was not counted before, if its headers are valid.
  const bool stages =
      due.reason.empty() || due.reason == "INDEX_OUT_OF_RANGE" || due.reason == "NON_FINITE_VALUE";
  if (backend_.stage_fails && stages && !due.duplicate) due = {"BACKEND_FULL"};
  const auto receipt = Send(update);
  backend_.stage_fails = false;
  return CheckReceipt(update, due, receipt);
}

absl::StatusOr<Receipt> Simulation::Upload(const Update& update, uint64_t bytes_max) {
  testing::TestUpdate encoded = Encode(update, "sum");
  const std::string bytes = encoded.byte_string();
  SPARSEAGG_ASSIGN_OR_RETURN(const auto upload,
                             engine_->BeginUpload(encoded.header, encoded.headers()));
  uint64_t at = upload->committed_offset();
  const std::string key =
      absl::StrCat(update.round, " ", update.contributor, " ", update.update_id);
  const uint64_t sent = uploads_.contains(key) ? uploads_.at(key).second : 0;
  if (at != sent && at != 0 && at != bytes.size()) {
    return absl::InternalError(absl::StrCat("resumes at ", at, ", sent were ", sent));
  }
  while (at < bytes.size()) {
    if (Chance(10)) {
      const absl::Status gap = upload->Append(at + 1, "x", std::nullopt);
      if (ErrorReason(gap) != "OFFSET_MISMATCH") return absl::InternalError("a gap is taken");
    }
    if (bytes_max == 0) {
      uploads_[key] = {update, at};
      return absl::CancelledError("the stream ends");
    }
    const uint64_t piece = std::min({bytes.size() - at, 1 + Below(100), size_t{bytes_max}});
    SPARSEAGG_RETURN_IF_ERROR(upload->Append(at, bytes.substr(at, piece), std::nullopt));
    at += piece;
    bytes_max -= piece;
  }
  auto receipt = upload->Finish();
  // The upload is kept if it may be retried.
  uploads_[key] = {update, bytes.size()};
  if (!absl::IsResourceExhausted(receipt.status())) uploads_.erase(key);
  return receipt;
}

std::string Simulation::SubmitInChunks() {
  Update update = RandomUpdate();
  // Long updates take many small chunks.
  if (IsLong(update)) update.variant = 0;
  // Resume an upload that was started rather than start it with other bytes.
  const std::string key =
      absl::StrCat(update.round, " ", update.contributor, " ", update.update_id);
  if (uploads_.contains(key)) update = uploads_.at(key).first;
  const uint64_t bytes_max = Chance(30) ? Below(60) : 1'000'000;
  log_(absl::StrCat("upload ", key, " ", update.variant, " ", update.weight, " ", update.flaw, " ",
                    bytes_max));
  if (MayBeClosed(update.round)) return "";
  const Answer due = model_.ExpectedUploadAnswer(update, now_);
  const auto receipt = Upload(update, bytes_max);
  if (absl::IsCancelled(receipt.status())) return "";
  return CheckReceipt(update, due, receipt);
}

std::string Simulation::Seal() {
  const std::string name = RoundName();
  log_("seal " + name);
  const std::string due = model_.Seal(name);
  return CheckReason(due, engine_->SealRound(name).status());
}

std::string Simulation::Abort() {
  const std::string name = RoundName();
  log_("abort " + name);
  const std::string due = model_.Abort(name);
  return CheckReason(due, engine_->AbortRound(name).status());
}

std::string Simulation::Delete() {
  const std::string name = RoundName();
  log_("delete " + name);
  // A deletion may be half done when it fails or the process ends.
  const auto found = before_.rounds.find(name);
  if (found != before_.rounds.end() && IsFinal(found->second.state)) {
    found->second.deletion_started = true;
  }
  const std::string due = model_.Delete(name);
  return CheckReason(due, engine_->DeleteRound(name));
}

std::string Simulation::RunTask() {
  if (executor_.queued() == 0) return "";
  log_("run a task");
  executor_.RunOne(Below(executor_.queued()));
  return "";
}

std::string Simulation::LoseDevice() {
  if (full_ || executor_.queued() == 0) return "";
  log_("run a task on a device that fails");
  disk_ = {};
  backend_.device_fails = true;
  executor_.RunOne(Below(executor_.queued()));
  backend_.device_fails = false;
  counts_.devices_lost += backend_.lost.empty() ? 0 : 1;
  return "";
}

std::string Simulation::PassTime() {
  const auto time =
      Chance(50) ? std::chrono::milliseconds(1 + Below(3000)) : std::chrono::minutes(1 + Below(30));
  log_(absl::StrCat("time passes: ", time.count(), " ms"));
  now_ += time;
  executor_.Advance(time);
  return "";
}

std::string Simulation::Settle() {
  log_("everything is done");
  full_ = false;
  disk_ = {};
  for (int turn = 0; turn < 12; ++turn) {
    executor_.WaitUntilIdle();
    now_ += std::chrono::seconds(1);
    executor_.Advance(std::chrono::seconds(1));
  }
  executor_.WaitUntilIdle();
  const std::string differs = Compare(/*settled=*/true);
  if (!differs.empty()) return differs;
  for (const auto& [name, round] : model_.rounds) {
    if (round.state == RoundState::kSealed) return name + " is sealed and not published";
    const bool due = round.Closing(now_) && !round.grace_uncertain;
    if (round.state == RoundState::kOpen && due) return name + " is open, its time is over";
  }
  return "";
}

}  // namespace sparseagg::sim
