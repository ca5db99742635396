// A root, leaves that may own rows, and a round whose tensors are divided among up to 16 of them.
#ifndef SPARSEAGG_TESTS_SERVICE_TREE_OWNER_BENCH_H_
#define SPARSEAGG_TESTS_SERVICE_TREE_OWNER_BENCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/tree/owners/owned_parts.h"
#include "tests/service/tree/result_bytes.h"
#include "tests/service/tree/tree_bench.h"

namespace sparseagg::testing {

inline constexpr char kRound[] = "rounds/r";
inline constexpr int kContributors = 9;
inline const std::vector<TensorSpec> kSpecs = {Sparse("a", 700'000), Sparse("b", 300'000, "max")};

inline CreateRoundArgs Args(Durability durability, RoundPolicy policy = {}) {
  CreateRoundArgs args;
  args.round_id = "r";
  args.request_id = "request";
  args.spec = {.tensors = kSpecs, .durability = durability, .policy = policy};
  args.spec.keep_updates = durability == Durability::kDurable;
  return args;
}

inline TestUpdate UpdateOf(int contributor) {
  TestUpdate update(kRound, absl::StrCat("c", contributor), 1.0f, "u");
  for (const TensorSpec& spec : kSpecs) {
    std::vector<int64_t> rows;
    std::vector<float> values;
    for (int64_t row = contributor; row < spec.dense_shape[0]; row += 1000 + 7 * contributor) {
      rows.push_back(row);
      values.push_back(static_cast<float>(contributor) + 0x1p-20f * static_cast<float>(row));
    }
    update.Add<float>(spec, rows, values);
  }
  return update;
}

// An owner's way to a peer.
class PeerLeaf : public LocalLeaf {
 public:
  PeerLeaf(OneServer*& server, LeafCalls& calls, std::function<bool()> is_cut)
      : LocalLeaf(server, calls), is_cut_(std::move(is_cut)) {}
  absl::Status ReadPartial(
      const std::string& name, const std::optional<RowRange>& rows, uint64_t likely,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
      const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) override {
    if (is_cut_()) return absl::UnavailableError("the owner has no way to the leaf");
    return LocalLeaf::ReadPartial(name, rows, likely, on_header, on_bytes);
  }

 private:
  const std::function<bool()> is_cut_;
};

// A tree whose leaves may own rows.
class OwnerBench : public TreeBench {
 public:
  OwnerBench(size_t leaves, const std::string& folder, FailpointHook hook = {})
      : TreeBench(leaves, folder, std::move(hook)) {
    for (const auto& server : servers) owners.push_back(Owner(*server));
  }
  std::unique_ptr<OwnedParts> Owner(OneServer& server) {
    OwnerOptions options{.peers = list};
    options.connect = [this, &server](const Leaf& leaf) {
      return std::make_unique<PeerLeaf>(answering[leaf.id], calls, [this, &server, leaf] {
        return cut.contains({&server, leaf.id});
      });
    };
    options.now = [this] { return std::chrono::steady_clock::time_point(now.time_since_epoch()); };
    options.shortest_pause = options.longest_pause = options.idle_pause =
        std::chrono::milliseconds(0);
    return std::make_unique<OwnedParts>(options, server.engine(), server.store());
  }
  void Restart(size_t leaf) {
    owners[leaf].reset();
    servers[leaf]->Start();
    owners[leaf] = Owner(*servers[leaf]);
  }
  void WorkOnce() {
    Work();
    for (const auto& owner : owners) {
      for (const std::string& peer : owner->PeerIds()) owner->Work(peer);
    }
  }
  // Until the round is in a final state.
  RoundSnapshot Finish() {
    for (int turn = 0; turn < 100; ++turn) {
      WorkOnce();
      const auto own = root.engine().GetRound(kRound);
      if (own.ok() && own->state != RoundState::kOpen) return root.Await(kRound);
    }
    return {};
  }
  void SendAll() {
    for (int i = 0; i < kContributors; ++i) {
      TestUpdate update = UpdateOf(i);
      const RoundTree tree = {.leaves = list, .self = ""};
      OneServer& leaf = *answering[LeafOf(tree, kRound, update.header.contributor).id];
      const auto receipt = leaf.engine().Submit(update.header, update.tensors());
      ASSERT_TRUE(receipt.ok()) << receipt.status();
    }
  }

  std::vector<std::unique_ptr<OwnedParts>> owners;
  std::set<std::pair<const OneServer*, std::string>> cut;  // owners, and what they do not reach
};

inline absl::StatusOr<RoundSnapshot> Create(OwnerBench& bench, CreateRoundArgs args) {
  args.spec.tree.owners = true;
  return bench.rounds->Create(args);
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_TREE_OWNER_BENCH_H_
