#include "tests/sim/simulation.h"

#include <bit>
#include <cstdint>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/durable_store.h"
#include "service/store/store_errors.h"
#include "tests/service/engine/testing.h"

namespace sparseagg::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kRetention = std::chrono::hours(2);

std::string Differs(const std::string& what, const std::string& seen, const std::string& due) {
  return absl::StrCat(what, " is ", seen, ", the model says ", due);
}

}  // namespace

Simulation::Simulation(uint64_t seed, std::string folder,
                       std::function<void(const std::string&)> log)
    : random_(seed), folder_(std::move(folder)), log_(std::move(log)) {
  fs::create_directories(Folder(lives_));
}

Simulation::~Simulation() { Stop(); }

// --- The server ---

absl::Status Simulation::Start() {
  auto store = OpenDurableStore(
      {.directory = Folder(lives_),
       .free_bytes_min = 0,
       .failpoints = FailpointHook([this](Failpoint point) { return PassFailpoint(point); })});
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  EngineOptions options;
  options.limits.result_retention_ms = static_cast<uint64_t>(kRetention.count());
  options.limits.retry_horizon_ms = 0;  // names are few and are reused
  options.executor = &executor_;
  options.now = [this] { return now_; };
  options.steady_now = [this] {
    return std::chrono::steady_clock::time_point(now_.time_since_epoch());
  };
  engine_ = MakeEngine(options, backend_, *store_);
  return engine_->Recover();
}

void Simulation::Stop() {
  executor_.DropAll();
  watches_.clear();
  engine_.reset();
  store_.reset();
}

absl::Status Simulation::PassFailpoint(Failpoint point) {
  const int number = disk_.passed++;
  if (number == disk_.crash_at) CopyDisk();
  if (!kFailpoints[static_cast<size_t>(point)].may_fail) return absl::OkStatus();
  if (!full_ && number != disk_.fail_at) return absl::OkStatus();
  ++disk_.errors;
  ++counts_.disk_errors;
  return StoreFull();
}

void Simulation::CopyDisk() {
  disk_.crashed = true;
  fs::copy(Folder(lives_), Folder(lives_ + 1), fs::copy_options::recursive);
}

void Simulation::WatchRound(const std::string& name) {
  const auto watch = std::make_shared<Watch>();
  // A weak pointer, because the watch owns the handle, which owns this function.
  const auto on_change = [seen = watch.get()](const std::optional<RoundSnapshot>& round) {
    seen->deleted = !round.has_value();
    if (!round.has_value() || round->revision <= seen->revision) return;
    seen->revision = round->revision;
    seen->state = round->state;
  };
  auto handle = engine_->Watch(name, WatchScope::kEveryChange, on_change);
  const auto round = engine_->GetRound(name);
  if (!handle.ok() || !round.ok()) return;
  watch->revision = round->revision;
  watch->state = round->state;
  watch->handle = *std::move(handle);
  watches_[name] = watch;
}

std::string Simulation::Recover() {
  ++counts_.crashes;
  Stop();
  fs::remove_all(Folder(lives_++));
  uploads_.clear();
  backend_.lost.clear();
  full_ = false;
  disk_ = {};
  disk_.fail_at = Chance(20) ? static_cast<int>(Below(12)) : -1;  // in the start, too
  absl::Status started = Start();
  for (int tries = 0; tries < 3 && DiskRefused(started); ++tries) {
    Stop();
    started = Start();
  }
  if (!started.ok()) return "the start fails: " + started.ToString();
  for (const RoundSnapshot& round : engine_->ListRounds("", 100)) WatchRound(round.name);
  const Model after = model_;
  const std::string differs_from_after = RecoverAs(after);
  if (differs_from_after.empty()) return CompareReceipts();
  const std::string differs_from_before = RecoverAs(before_);
  if (differs_from_before.empty()) return CompareReceipts();
  return absl::StrCat("after a crash, neither after the step: ", differs_from_after,
                      "; nor before it: ", differs_from_before);
}

std::string Simulation::RecoverAs(const Model& candidate) {
  model_ = candidate;
  model_.Crash();
  return Compare();
}

// --- The visible state ---

bool Simulation::DiskRefused(const absl::Status& status) const {
  return ErrorReason(status) == "STORE_FULL" && disk_.errors > 0;
}

std::string Simulation::CheckReason(const std::string& due, const absl::Status& status) {
  if (!status.ok()) ++counts_.refused;
  if (DiskRefused(status) && due.empty()) {
    model_ = before_;
    return "";
  }
  const std::string reason = status.ok() ? "" : ErrorReason(status);
  return reason == due ? "" : Differs("the answer", status.ToString(), "\"" + due + "\"");
}

std::string Simulation::CheckReceipt(const Update& update, const Answer& due,
                                     const absl::StatusOr<Receipt>& receipt) {
  const auto round = model_.rounds.find(update.round);
  const bool deletion_started = round != model_.rounds.end() && round->second.deletion_started;
  if (deletion_started && ErrorReason(receipt.status()) == "ROUND_NOT_OPEN") return "";
  const std::string differs = CheckReason(due.reason, receipt.status());
  if (!differs.empty() || !receipt.ok()) return differs;
  if (receipt->duplicate != due.duplicate || receipt->sequence != due.sequence ||
      receipt->contributor != update.contributor || receipt->update_id != update.update_id) {
    return Differs("the receipt",
                   absl::StrCat(receipt->contributor, " ", receipt->update_id, " ",
                                receipt->duplicate, " ", receipt->sequence),
                   absl::StrCat(due.duplicate, " ", due.sequence));
  }
  ++(due.duplicate ? counts_.duplicates : counts_.accepted);
  if (!due.duplicate) model_.Count(update, now_);
  return "";
}

std::string Simulation::Compare(bool settled) {
  std::map<std::string, RoundSnapshot> seen;
  for (const RoundSnapshot& round : engine_->ListRounds("", 100)) seen[round.name] = round;
  for (auto it = model_.rounds.begin(); it != model_.rounds.end();) {
    const auto& [name, round] = *it;
    if (seen.contains(name)) {
      ++it;
      continue;
    }
    if (!IsFinal(round.state) || now_ - round.since < kRetention) return name + " is gone";
    it = model_.rounds.erase(it);  // its retention is over
  }
  for (const auto& [name, snapshot] : seen) {
    const auto round = model_.rounds.find(name);
    if (round == model_.rounds.end()) return name + " is there, the model has no such round";
    const std::string differs = CompareRound(snapshot, round->second);
    if (!differs.empty()) return absl::StrCat(name, ": ", differs);
  }
  for (auto it = watches_.begin(); it != watches_.end();) {
    const auto& [name, watch] = *it;
    const auto round = seen.find(name);
    if (round == seen.end()) {
      if (!watch->deleted) return name + " was deleted, and its watcher not told";
      it = watches_.erase(it);
      continue;
    }
    const bool told = watch->revision == round->second.revision ||
                      (!settled && watch->state == round->second.state);
    if (!told) return name + " changed, its watcher not told";
    ++it;
  }
  return "";
}

std::string Simulation::CompareRound(const RoundSnapshot& seen, Round& round) {
  if (!IsFinal(round.state) && backend_.lost.contains(seen.spec.tensors[0].name)) {
    if (seen.failure.empty()) return "lost its device and says nothing of it";
    round.state = RoundState::kAborted;
  }
  // Its policy closed it at a check.
  const bool closing = round.Closing(now_) || round.grace_uncertain;
  if (round.state == RoundState::kOpen && seen.state != RoundState::kOpen && closing) {
    const bool enough = round.counted.size() >= round.policy.min;
    if (!enough && seen.failure.find("INSUFFICIENT_CONTRIBUTORS") == std::string::npos) {
      return "ended below its minimum: " + seen.failure;
    }
    round.state = enough ? RoundState::kSealed : RoundState::kAborted;
  }
  if (round.state == RoundState::kSealed && seen.state == RoundState::kPublished) {
    round.state = RoundState::kPublished;
    ++counts_.published;
    const std::string differs = CompareResult(seen.name, round);
    if (!differs.empty()) return differs;
  }
  if (round.state != seen.state) {
    return Differs("the state", std::string(RoundStateName(seen.state)),
                   std::string(RoundStateName(round.state)));
  }
  if (round.state != RoundState::kAborted && seen.contributors != round.counted.size()) {
    return Differs("the number of contributors", absl::StrCat(seen.contributors),
                   absl::StrCat(round.counted.size()));
  }
  const bool has_result = engine_->Result(seen.name).ok();
  if (has_result != (round.state == RoundState::kPublished)) return "a result without publication";
  if (IsFinal(round.state)) {
    round.since = seen.publish_time.value_or(seen.abort_time.value_or(seen.create_time));
  }
  // Maintenance may already have deleted this round.
  if (IsFinal(round.state) && now_ - round.since >= kRetention) round.deletion_started = true;
  return "";
}

std::string Simulation::CompareResult(const std::string& name, const Round& round) {
  const auto result = engine_->Result(name);
  if (!result.ok()) return "published without a result: " + result.status().ToString();
  const SparseTensor& tensor = (*result)->tensors[0];
  const std::vector<float> values = testing::Values<float>(tensor);
  const Entries due = round.Result();
  if (due.size() != tensor.nnz()) {
    return Differs("the result's length", absl::StrCat(tensor.nnz()), absl::StrCat(due.size()));
  }
  size_t entry = 0;
  for (const auto& [row, sum] : due) {
    const auto value = static_cast<float>(sum);
    if (tensor.indices[entry] != static_cast<uint64_t>(row) ||
        std::bit_cast<uint32_t>(values[entry]) != std::bit_cast<uint32_t>(value)) {
      return Differs(absl::StrCat("entry ", entry),
                     absl::StrCat(tensor.indices[entry], ": ", values[entry]),
                     absl::StrCat(row, ": ", value));
    }
    ++entry;
  }
  const Manifest& manifest = (*result)->manifest;
  if (manifest.contributors != round.counted.size() ||
      manifest.total_weight != round.TotalWeight()) {
    return Differs("the manifest", absl::StrCat(manifest.contributors, ", ", manifest.total_weight),
                   absl::StrCat(round.counted.size(), ", ", round.TotalWeight()));
  }
  return "";
}

// A resend of every counted update gets its receipt again.
std::string Simulation::CompareReceipts() {
  disk_ = {};
  before_ = model_;
  for (const auto& [name, round] : before_.rounds) {
    if (round.state == RoundState::kPublished) {
      const std::string differs = CompareResult(name, round);
      if (!differs.empty()) return absl::StrCat(name, ": ", differs);
    }
    if (round.deletion_started || round.state == RoundState::kAborted) continue;
    for (const auto& [contributor, update] : round.counted) {
      const Answer due = model_.ExpectedAnswer(update, now_);
      if (!due.duplicate) return "the model has lost an update";
      const std::string differs = CheckReceipt(update, due, Send(update));
      if (!differs.empty()) return absl::StrCat(name, " ", contributor, ": ", differs);
    }
  }
  return "";
}

std::string Simulation::Run(int steps) {
  const absl::Status started = Start();
  if (!started.ok()) return started.ToString();
  for (int step = 0; step < steps; ++step) {
    const std::string differs = Step();
    if (!differs.empty()) return absl::StrCat("step ", step, ": ", differs);
  }
  // At the end, everything that can be published is published, and stays so after another start.
  full_ = false;
  for (auto& [name, round] : model_.rounds) {
    if (round.state != RoundState::kOpen) continue;
    before_ = model_;
    disk_ = {};
    std::string differs = CheckReason(model_.Seal(name), engine_->SealRound(name).status());
    if (round.state == RoundState::kOpen && differs.empty()) {  // below its minimum
      differs = CheckReason(model_.Abort(name), engine_->AbortRound(name).status());
    }
    if (!differs.empty()) return "at the end: " + differs;
  }
  std::string differs = Settle();
  if (differs.empty()) differs = Compare();
  if (differs.empty()) differs = CompareReceipts();
  if (differs.empty() && !fs::is_empty(Folder(lives_) + "/payloads")) {
    differs = "all rounds have ended, and raw updates are left";
  }
  if (differs.empty()) {
    before_ = model_;
    CopyDisk();
    differs = Recover();
  }
  return differs.empty() ? "" : "at the end: " + differs;
}

}  // namespace sparseagg::sim
