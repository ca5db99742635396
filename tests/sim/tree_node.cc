#include "tests/sim/tree_node.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/status.h"
#include "service/engine/partial/partial_body.h"
#include "service/engine/partial/partial_slices.h"
#include "service/store/store_errors.h"
#include "tests/service/tree/result_bytes.h"

namespace sparseagg::sim {
namespace {

namespace fs = std::filesystem;

}  // namespace

TreeNode::TreeNode(std::string folder, Backend& backend, Now now)
    : folder_(std::move(folder)), backend_(backend), now_(std::move(now)) {
  fs::create_directories(Folder(0));
}

absl::Status TreeNode::Start() {
  BeginStep(-1, -1);
  auto store = OpenDurableStore(
      {.directory = Folder(lives_),
       .free_bytes_min = 0,
       .failpoints = FailpointHook([this](Failpoint point) { return PassFailpoint(point); })});
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  EngineOptions options;
  options.default_durability = Durability::kDurable;
  options.executor = &executor_;
  options.now = now_;
  options.steady_now = [this] {
    return std::chrono::steady_clock::time_point(now_().time_since_epoch());
  };
  engine_ = MakeEngine(options, backend_, *store_);
  if (owner_options.has_value()) {
    owner_ = std::make_unique<OwnedParts>(*owner_options, *engine_, *store_);
  }
  return engine_->Recover();
}

void TreeNode::Stop() {
  executor_.DropAll();
  owner_.reset();
  engine_.reset();
  store_.reset();
}

void TreeNode::End() {
  if (std::exchange(crashed_, true)) return;
  fs::copy(Folder(lives_), Folder(lives_ + 1), fs::copy_options::recursive);
}

absl::Status TreeNode::Restart() {
  Stop();
  if (std::exchange(crashed_, false)) fs::remove_all(Folder(lives_++));
  return Start();
}

absl::Status TreeNode::RestartEmpty() {
  Stop();
  fs::remove_all(folder_);
  fs::create_directories(Folder(lives_));
  crashed_ = false;
  return Start();
}

void TreeNode::BeginStep(int fail_at, int crash_at) {
  fail_at_ = fail_at;
  crash_at_ = crash_at;
  passed_ = errors_ = 0;
}

absl::Status TreeNode::PassFailpoint(Failpoint point) {
  const int number = passed_++;
  if (number == crash_at_) End();
  if (!kFailpoints[static_cast<size_t>(point)].may_fail) return absl::OkStatus();
  if (!is_full && number != fail_at_) return absl::OkStatus();
  ++errors_;
  return StoreFull();
}

// --- Calls ---

absl::Status SimulatedLink::Silence() {
  return MakeError(absl::StatusCode::kUnavailable, "CANNOT_CONNECT", "simulated");
}

absl::StatusOr<LeafRound> SimulatedLink::Of(const absl::StatusOr<RoundSnapshot>& round) {
  if (!round.ok()) return round.status();
  return LeafRound{round->state, round->contributors, round->start, round->spec.tree,
                   round->may_be_restored};
}

absl::StatusOr<LeafRound> SimulatedLink::Create(const CreateRoundArgs& args) {
  return Call([&] { return Of(leaf_.engine().CreateRound(args)); });
}

absl::StatusOr<LeafRound> SimulatedLink::Get(const std::string& name) {
  return Call([&] { return Of(leaf_.engine().GetRound(name)); });
}

absl::StatusOr<LeafRound> SimulatedLink::Seal(const std::string& name) {
  return Call([&] { return Of(leaf_.engine().SealRound(name)); });
}

absl::Status SimulatedLink::Abort(const std::string& name) {
  return Call([&] { return leaf_.engine().AbortRound(name).status(); });
}

absl::Status SimulatedLink::Delete(const std::string& name) {
  return Call([&] { return leaf_.engine().DeleteRound(name); });
}

absl::Status SimulatedLink::GiveUp(const std::string& name) {
  return Call([&] { return leaf_.engine().FailRound(name, std::string(kLeafGivenUp)).status(); });
}

absl::Status SimulatedLink::ReadPartial(
    const std::string& name, const std::optional<RowRange>& rows, uint64_t /*likely*/,
    const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
    const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) {
  constexpr uint64_t kChunk = 100;
  if (!IsConnected() || loses_answer_()) return Silence();
  SPARSEAGG_ASSIGN_OR_RETURN(const auto result, leaf_.engine().Result(name));
  std::string part;
  if (rows.has_value()) {
    SPARSEAGG_RETURN_IF_ERROR(CheckRowRange(*rows, result->spec.tensors));
    SPARSEAGG_ASSIGN_OR_RETURN(const PartialSlices cut, CutPartial(result->partial, *rows));
    while (part.size() < cut.size()) part += cut.Piece(part.size(), cut.size());
  }
  const std::string_view bytes = rows.has_value() ? part : result->partial;
  SPARSEAGG_ASSIGN_OR_RETURN(uint64_t offset,
                             on_header({bytes.size(), std::string(PartialDigest(bytes))}));
  for (; offset < bytes.size(); offset += kChunk) {
    if (!IsConnected() || loses_answer_()) return Silence();
    SPARSEAGG_RETURN_IF_ERROR(on_bytes(offset, bytes.substr(offset, kChunk)));
  }
  return absl::OkStatus();
}

absl::StatusOr<OwnerRound> SimulatedLink::GetOwned(const std::string& name) {
  return Call([&]() -> absl::StatusOr<OwnerRound> {
    SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot round, leaf_.engine().GetRound(name));
    OwnerRound owned = {round.state, round.failure, {}, round.manifest.value_or(Manifest())};
    for (const TensorStatus& tensor : round.tensors) owned.nnz.push_back(tensor.nnz_result);
    return owned;
  });
}

absl::StatusOr<Verification> SimulatedLink::Verify(const std::string& name) {
  return Call([&] { return leaf_.engine().VerifyRound(name, [] { return false; }); });
}

void SimulatedLink::ReadResult(const std::string& name, const v1::ReadResultRequest& request,
                               PartReader::Done done) {
  done(Call([&] { return testing::ReadPiece(leaf_.engine(), name, request); }));
}

}  // namespace sparseagg::sim
