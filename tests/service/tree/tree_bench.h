// A root and leaves in one process: real engines, and links that call them and can fail. Time moves
// only when the test moves it, and nothing happens but by Work(). A leaf answers when it has
// published, so that nothing has to be waited for.
#ifndef SPARSEAGG_TESTS_SERVICE_TREE_TREE_BENCH_H_
#define SPARSEAGG_TESTS_SERVICE_TREE_TREE_BENCH_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/engine/names.h"
#include "service/engine/partial/partial_slices.h"
#include "service/store/durable_store.h"
#include "service/tree/tree_rounds.h"
#include "tests/service/engine/testing.h"
#include "tests/service/tree/result_bytes.h"

namespace sparseagg::testing {

// An engine on a data directory, or in memory.
class OneServer {
 public:
  explicit OneServer(std::string folder, FailpointHook hook = {})
      : folder_(std::move(folder)), hook_(std::move(hook)), backend_(MakeBackend("cpu")) {
    Start();
  }
  void Stop() {
    engine_.reset();
    store_.reset();
    rows_ = nullptr;
  }
  // Starts it on what is stored, as after a kill. What was in memory is lost.
  void Start() {
    Stop();
    if (folder_.empty()) {
      store_ = MakeMemoryStore();
    } else {
      auto durable =
          OpenDurableStore({.directory = folder_, .free_bytes_min = 0, .failpoints = hook_});
      ASSERT_TRUE(durable.ok()) << durable.status();
      rows_ = durable->get();
      store_ = *std::move(durable);
    }
    EngineOptions options;
    if (!folder_.empty()) options.default_durability = Durability::kDurable;
    if (staging_bytes_max > 0) options.limits.staging_bytes_max = staging_bytes_max;
    engine_ = MakeEngine(options, *backend_, *store_);
    ASSERT_TRUE(engine_->Recover().ok());
  }
  uint64_t staging_bytes_max = 0;  // from the next Start() on; 0: the default

  Engine& engine() { return *engine_; }
  const UpdateStore& store() const { return *store_; }
  TaskRowStore* rows() { return rows_; }

  // Waits until the round is in a final state.
  RoundSnapshot Await(const std::string& name) {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<RoundSnapshot> last;
    const auto watch = engine_->Watch(name, WatchScope::kEnd, [&](const auto& round) {
      const std::lock_guard lock(mutex);
      last = round;
      changed.notify_all();
    });
    auto now = engine_->GetRound(name);
    if (!now.ok() || IsFinal(now->state)) return now.value_or(RoundSnapshot{});
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return last.has_value() && IsFinal(last->state); });
    return *last;
  }

 private:
  const std::string folder_;
  const FailpointHook hook_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_;
  TaskRowStore* rows_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

// What is asked of leaves.
struct LeafCalls {
  std::function<void(const std::string& round)> on_seal = [](const std::string&) {};
  std::function<void(const std::string& round)> on_read = [](const std::string&) {};
  std::atomic<int> described = 0;
  bool is_publishing = false;  // the leaves answer that they have not published yet
};

class LocalLeaf : public LeafLink {
 public:
  // `server` may be replaced; null: it does not answer.
  LocalLeaf(OneServer*& server, LeafCalls& calls) : server_(server), calls_(calls) {}

  absl::Status Greet() override { return server_ == nullptr ? Silent() : absl::OkStatus(); }
  absl::StatusOr<LeafRound> Create(const CreateRoundArgs& args) override {
    if (server_ == nullptr) return Silent();
    return Of(server_->engine().CreateRound(args));
  }
  absl::StatusOr<LeafRound> Get(const std::string& name) override {
    if (server_ == nullptr) return Silent();
    return Published(name, server_->engine().GetRound(name));
  }
  absl::StatusOr<LeafRound> Seal(const std::string& name) override {
    if (server_ == nullptr) return Silent();
    calls_.on_seal(name);
    return Published(name, server_->engine().SealRound(name));
  }
  absl::Status Abort(const std::string& name) override {
    return server_ == nullptr ? Silent() : server_->engine().AbortRound(name).status();
  }
  absl::Status Delete(const std::string& name) override {
    return server_ == nullptr ? Silent() : server_->engine().DeleteRound(name);
  }
  absl::Status GiveUp(const std::string& name) override {
    return server_ == nullptr
               ? Silent()
               : server_->engine().FailRound(name, "LEAF_GIVEN_UP: simulated").status();
  }
  absl::Status ReadPartial(
      const std::string& name, const std::optional<RowRange>& rows, uint64_t /*likely*/,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
      const std::function<absl::Status(uint64_t, std::string_view)>& on_bytes) override {
    constexpr size_t kChunk = 100;
    ++calls_.described;
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string all, Partial(name, rows));
    const std::string_view bytes = all;
    SPARSEAGG_ASSIGN_OR_RETURN(uint64_t offset,
                               on_header({bytes.size(), std::string(PartialDigest(bytes))}));
    calls_.on_read(name);
    for (; offset < bytes.size(); offset += kChunk) {
      SPARSEAGG_RETURN_IF_ERROR(on_bytes(offset, bytes.substr(offset, kChunk)));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OwnerRound> GetOwned(const std::string& name) override {
    if (server_ == nullptr) return Silent();
    SPARSEAGG_RETURN_IF_ERROR(Published(name, server_->engine().GetRound(name)).status());
    SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot round, server_->engine().GetRound(name));
    OwnerRound owned = {round.state, round.failure, {}, round.manifest.value_or(Manifest())};
    for (const TensorStatus& tensor : round.tensors) owned.nnz.push_back(tensor.nnz_result);
    return owned;
  }
  absl::StatusOr<Verification> Verify(const std::string& name) override {
    if (server_ == nullptr) return Silent();
    return server_->engine().VerifyRound(name, [] { return false; });
  }
  void ReadResult(const std::string& name, const v1::ReadResultRequest& request,
                  PartReader::Done done) override {
    if (server_ == nullptr) return done(Silent());
    done(ReadPiece(server_->engine(), name, request));
  }

 private:
  absl::StatusOr<std::string> Partial(const std::string& name,
                                      const std::optional<RowRange>& rows) {
    if (server_ == nullptr) return Silent();
    SPARSEAGG_ASSIGN_OR_RETURN(const auto result, server_->engine().Result(name));
    if (!rows.has_value()) return result->partial;
    SPARSEAGG_ASSIGN_OR_RETURN(const PartialSlices cut, CutPartial(result->partial, *rows));
    return absl::StrCat(cut.head, std::string(cut.covered), std::string(cut.slices), cut.digest);
  }
  static absl::Status Silent() {
    return MakeError(absl::StatusCode::kUnavailable, "CANNOT_CONNECT", "there is no server");
  }
  static absl::StatusOr<LeafRound> Of(const absl::StatusOr<RoundSnapshot>& round) {
    if (!round.ok()) return round.status();
    return LeafRound{round->state, round->contributors, round->start, round->spec.tree,
                     round->may_be_restored};
  }

  absl::StatusOr<LeafRound> Published(const std::string& name,
                                      absl::StatusOr<RoundSnapshot> round) {
    if (round.ok() && calls_.is_publishing && round->state != RoundState::kOpen) {
      round->state = RoundState::kSealed;
      return Of(round);
    }
    if (round.ok() && round->state == RoundState::kSealed) round = server_->Await(name);
    return Of(round);
  }

  OneServer*& server_;
  LeafCalls& calls_;
};

class TreeBench {
 public:
  // Data directories below `folder`; empty: all in memory. `hook` is of the root's store.
  TreeBench(size_t leaves, const std::string& folder, FailpointHook hook = {})
      : root(folder.empty() ? "" : folder + "/root", std::move(hook)) {
    for (size_t i = 0; i < leaves; ++i) {
      const std::string id = absl::StrCat("leaf-", i);
      servers.push_back(
          std::make_unique<OneServer>(folder.empty() ? "" : absl::StrCat(folder, "/", id)));
      answering[id] = servers.back().get();
      list.push_back({id, absl::StrCat("host-", i, ":50061")});
    }
    StartRounds();
  }

  // Returns whether the root has rows of tasks or trees.
  bool HasRows() {
    bool has_rows = false;
    const absl::Status read =
        root.rows()->ReadTaskRows("", [&](const TaskRow&) { has_rows = true; });
    return has_rows || !read.ok();
  }

  TreeOptions Options() {
    TreeOptions options{.leaves = list};
    options.connect = [this](const Leaf& leaf) {
      return std::make_unique<LocalLeaf>(answering[leaf.id], calls);
    };
    options.now = [this] { return now; };
    options.steady_now = [this] {
      return std::chrono::steady_clock::time_point(now.time_since_epoch());
    };
    options.goal_poll_interval = poll_interval;
    options.poll_interval = poll_interval;
    options.shortest_pause = options.longest_pause = std::chrono::milliseconds(0);
    options.log = [this](std::string_view event, const std::string&, const std::string& detail) {
      log.push_back(absl::StrCat(std::string(event), ": ", detail));
    };
    return options;
  }

  // Makes the state machine again on what the root has stored. `engine` and `rows`: those of the
  // root, if null.
  void StartRounds(Engine* engine = nullptr, TaskRowStore* rows = nullptr) {
    rounds = std::make_unique<TreeRounds>(Options(), engine == nullptr ? root.engine() : *engine,
                                          root.store(), rows == nullptr ? root.rows() : rows);
    ASSERT_TRUE(rounds->Recover().ok());
  }
  void RestartRoot() {
    rounds.reset();
    root.Start();
    StartRounds();
  }
  void Work() {
    for (const std::string& leaf : rounds->LeafIds()) {
      rounds->WorkOn(leaf);
      rounds->Transfer(leaf);
    }
    rounds->Tick();
  }
  absl::StatusOr<Receipt> Send(const std::string& round, const std::string& contributor,
                               const TensorSpec& spec, float value) {
    TestUpdate update(round, contributor, 1.0f, "u");
    update.Add<float>(spec, {1, static_cast<int64_t>(contributor.size())}, {value, 0x1p-30f});
    const RoundTree tree = {.leaves = list, .self = ""};
    return answering[LeafOf(tree, round, contributor).id]->engine().Submit(update.header,
                                                                           update.tensors());
  }

  OneServer root;
  std::vector<std::unique_ptr<OneServer>> servers;
  std::map<std::string, OneServer*> answering;  // by id; null: silent
  std::vector<Leaf> list;
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  std::chrono::milliseconds poll_interval{0};
  LeafCalls calls;
  std::vector<std::string> log;
  std::unique_ptr<TreeRounds> rounds;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_TREE_TREE_BENCH_H_
