// A server of a simulated tree (tree_simulation.h): a real engine and store on a disk that can be
// full or fail, with a process that can end at any failpoint; and the way from one to another.
#ifndef SPARSEAGG_TESTS_SIM_TREE_NODE_H_
#define SPARSEAGG_TESTS_SIM_TREE_NODE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/store/durable_store.h"
#include "service/store/failpoints.h"
#include "service/tree/leaf_link.h"
#include "service/tree/owners/owned_parts.h"
#include "tests/support/manual_executor.h"

namespace sparseagg::sim {

class TreeNode {
 public:
  using Now = std::function<std::chrono::system_clock::time_point()>;
  // `folder` is for its disks, one for each process. The others must outlive this.
  TreeNode(std::string folder, Backend& backend, Now now);
  ~TreeNode() { Stop(); }
  TreeNode(const TreeNode&) = delete;
  TreeNode& operator=(const TreeNode&) = delete;

  // Starts the first process, or another on the disk that the last one had when it ended.
  absl::Status Restart();
  // Like Restart(), with an empty disk.
  absl::Status RestartEmpty();
  // Ends the process between two steps.
  void End();
  // Before a step: the failpoints of this step, counted from 0, at which the disk fails once and at
  // which the process ends; -1: none.
  void BeginStep(int fail_at, int crash_at);

  bool answers() const { return is_connected && !crashed_; }
  // The process has ended. What it still does is not seen by anybody.
  bool crashed() const { return crashed_; }
  // An error of the disk is an allowed answer.
  bool disk_failed() const { return errors_ > 0; }
  Engine& engine() { return *engine_; }
  DurableStore& store() { return *store_; }
  testing::ManualExecutor& executor() { return executor_; }
  // REQUIRES: owner_options was set when the process started.
  OwnedParts& owner() { return *owner_; }

  std::optional<OwnerOptions> owner_options;  // of the next process
  std::set<const TreeNode*> unreachable;      // from here
  bool is_connected = true;
  bool is_full = false;

 private:
  std::string Folder(int life) const { return folder_ + "/" + std::to_string(life); }
  absl::Status PassFailpoint(Failpoint point);
  absl::Status Start();
  void Stop();

  const std::string folder_;
  Backend& backend_;
  const Now now_;
  int lives_ = 0;
  int fail_at_ = -1;
  int crash_at_ = -1;
  int passed_ = 0;
  int errors_ = 0;
  bool crashed_ = false;
  testing::ManualExecutor executor_;
  std::unique_ptr<DurableStore> store_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<OwnedParts> owner_;
};

// The calls reach a leaf that answers, from a server whose process has not ended: the root, or an
// owner, which reaches itself always and others while it is connected. `loses_answer` is asked
// after each of them.
class SimulatedLink : public LeafLink {
 public:
  SimulatedLink(const TreeNode& caller, TreeNode& leaf, std::function<bool()> loses_answer)
      : caller_(caller), leaf_(leaf), loses_answer_(std::move(loses_answer)) {}

  absl::Status Greet() override {
    return Call([] { return absl::OkStatus(); });
  }
  absl::StatusOr<LeafRound> Create(const CreateRoundArgs& args) override;
  absl::StatusOr<LeafRound> Get(const std::string& name) override;
  absl::StatusOr<LeafRound> Seal(const std::string& name) override;
  absl::Status Abort(const std::string& name) override;
  absl::Status Delete(const std::string& name) override;
  absl::Status GiveUp(const std::string& name) override;
  absl::Status ReadPartial(
      const std::string& name, const std::optional<RowRange>& rows, uint64_t likely,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
      const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) override;
  absl::StatusOr<OwnerRound> GetOwned(const std::string& name) override;
  absl::StatusOr<Verification> Verify(const std::string& name) override;
  void ReadResult(const std::string& name, const v1::ReadResultRequest& request,
                  PartReader::Done done) override;

 private:
  bool IsConnected() const {
    if (&caller_ == &leaf_) return !leaf_.crashed();
    return leaf_.answers() && caller_.answers() && !caller_.unreachable.contains(&leaf_);
  }
  template <class F>
  auto Call(const F& call) -> decltype(call()) {
    if (!IsConnected()) return Silence();
    auto answer = call();
    if (!IsConnected() || loses_answer_()) return Silence();
    return answer;
  }
  static absl::Status Silence();
  static absl::StatusOr<LeafRound> Of(const absl::StatusOr<RoundSnapshot>& round);

  const TreeNode& caller_;
  TreeNode& leaf_;
  const std::function<bool()> loses_answer_;
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_TREE_NODE_H_
