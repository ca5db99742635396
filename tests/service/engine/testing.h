// Shared by the engine's tests: an engine on a real back end and the memory store, and updates
// written in one line.
#ifndef SPARSEAGG_TESTS_SERVICE_ENGINE_TESTING_H_
#define SPARSEAGG_TESTS_SERVICE_ENGINE_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "service/engine/engine.h"
#include "service/store/store.h"
#include "sparse/backend.h"

namespace sparseagg::testing {

inline TensorSpec Sparse(std::string name, int64_t num_rows, std::string op = "sum",
                         ValueType type = ValueType::kF32) {
  return {.name = std::move(name),
          .value_type = type,
          .dense_shape = {num_rows},
          .sparse_dim = 1,
          .op = std::move(op)};
}

template <typename T>
std::string Bytes(const std::vector<T>& items) {
  return {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)};
}

template <typename T>
std::vector<T> Values(const SparseTensor& tensor) {
  std::vector<T> values(tensor.values.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.values.data(), tensor.values.size());
  return values;
}

// An update that owns its bytes.
class TestUpdate {
 public:
  TestUpdate(std::string round, std::string contributor, float weight = 1.0f,
             std::string update_id = "u1") {
    header = {.round = std::move(round),
              .contributor = std::move(contributor),
              .update_id = std::move(update_id),
              .weight = weight};
  }

  // One entry for each row.
  template <typename T = float>
  TestUpdate& Add(const TensorSpec& spec, const std::vector<int64_t>& rows,
                  const std::vector<T>& values) {
    Owned& tensor = tensors_.emplace_back();
    tensor.header = {.name = spec.name,
                     .value_type = spec.value_type,
                     .dense_shape = spec.dense_shape,
                     .sparse_dim = spec.sparse_dim,
                     .nnz = spec.sparse_dim == 0 ? (values.empty() ? 0u : 1u) : rows.size()};
    tensor.indices = Bytes(rows);
    tensor.values = Bytes(values);
    tensor.header.indices_bytes = tensor.indices.size();
    tensor.header.values_bytes = tensor.values.size();
    return *this;
  }

  EncodedHeader& tensor_header(size_t i = 0) { return tensors_[i].header; }
  std::string& indices(size_t i = 0) { return tensors_[i].indices; }
  std::string& values(size_t i = 0) { return tensors_[i].values; }

  // Valid until the update changes.
  const std::vector<EncodedTensor>& tensors() {
    views_.clear();
    for (Owned& tensor : tensors_) {
      tensor.pieces[0] = tensor.indices;
      tensor.pieces[1] = tensor.values;
      views_.push_back(
          {tensor.header, ByteChain(&tensor.pieces[0], 1), ByteChain(&tensor.pieces[1], 1)});
    }
    return views_;
  }
  std::vector<EncodedHeader> headers() const {
    std::vector<EncodedHeader> headers;
    for (const Owned& tensor : tensors_) headers.push_back(tensor.header);
    return headers;
  }
  // The byte string that is sent in chunks.
  std::string byte_string() const {
    std::string bytes;
    for (const Owned& tensor : tensors_) bytes += tensor.indices + tensor.values;
    return bytes;
  }

  UpdateHeader header;

 private:
  struct Owned {
    EncodedHeader header;
    std::string indices;
    std::string values;
    std::string_view pieces[2];
  };
  std::deque<Owned> tensors_;
  std::vector<EncodedTensor> views_;
};

inline std::unique_ptr<Backend> MakeBackend(std::string_view name) {
  for (const BackendFactory& factory : AllBackends()) {
    if (factory.name != name) continue;
    auto backend = factory.make({.threads = 2});
    return backend.ok() ? *std::move(backend) : nullptr;
  }
  return nullptr;
}

// A clock that can block the threads of the engine. Publishing reads the time, so a sealed round
// stays SEALED while the clock is stopped. The clock never blocks the thread that created it.
class TestClock {
 public:
  std::chrono::system_clock::time_point Now() {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() != owner_) {
      changed_.wait(lock, [this] { return !stopped_; });
    }
    return std::chrono::system_clock::now() + ahead_ + wall_set_by_;
  }
  // Never blocks.
  std::chrono::steady_clock::time_point SteadyNow() {
    std::lock_guard lock(mutex_);
    return std::chrono::steady_clock::now() + ahead_;
  }
  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  void GoOn() {
    std::lock_guard lock(mutex_);
    stopped_ = false;
    changed_.notify_all();
  }
  // Advances both clocks.
  void Advance(std::chrono::milliseconds by) {
    std::lock_guard lock(mutex_);
    ahead_ += by;
  }
  // Sets the wall clock without advancing the steady clock.
  void SetWallClockBy(std::chrono::milliseconds by) {
    std::lock_guard lock(mutex_);
    wall_set_by_ += by;
  }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::chrono::milliseconds ahead_{0};
  std::chrono::milliseconds wall_set_by_{0};
};

// Back end, store, clock and engine. Options can be changed before the first use of engine().
class TestEngine {
 public:
  explicit TestEngine(std::string_view backend = "cpu") : TestEngine(MakeBackend(backend)) {}
  using OpenStore = std::function<std::unique_ptr<UpdateStore>()>;
  explicit TestEngine(std::unique_ptr<Backend> backend, OpenStore open_store = MakeMemoryStore)
      : open_store_(std::move(open_store)), backend_(std::move(backend)), store_(open_store_()) {
    options.now = [this] { return clock.Now(); };
    options.steady_now = [this] { return clock.SteadyNow(); };
  }
  ~TestEngine() { clock.GoOn(); }

  // Restarts the engine as a new process would: only the content of the store remains.
  absl::Status Restart() {
    engine_.reset();
    store_.reset();
    store_ = open_store_();
    return engine().Recover();
  }

  TestClock clock;
  EngineOptions options;

  Engine& engine() {
    if (engine_ == nullptr) engine_ = MakeEngine(options, *backend_, *store_);
    return *engine_;
  }
  UpdateStore& store() { return *store_; }
  Engine* operator->() { return &engine(); }

  RoundSnapshot Create(std::vector<TensorSpec> tensors, std::string round_id = "") {
    auto round = engine().CreateRound({.round_id = std::move(round_id),
                                       .request_id = "",
                                       .spec = {.tensors = std::move(tensors)}});
    EXPECT_TRUE(round.ok()) << round.status();
    return round.ok() ? *round : RoundSnapshot{};
  }

  RoundSnapshot Create(RoundSpec spec, std::string round_id = "r") {
    auto round = engine().CreateRound(
        {.round_id = std::move(round_id), .request_id = "", .spec = std::move(spec)});
    EXPECT_TRUE(round.ok()) << round.status();
    return round.ok() ? *round : RoundSnapshot{};
  }

  absl::StatusOr<Receipt> Submit(TestUpdate update) {
    return engine().Submit(update.header, update.tensors());
  }

  // Waits until the round satisfies `done`.
  RoundSnapshot WaitFor(const std::string& name,
                        const std::function<bool(const RoundSnapshot&)>& done) {
    std::mutex mutex;
    std::condition_variable changed;
    RoundSnapshot newest;
    const auto take = [&](const std::optional<RoundSnapshot>& round) {
      std::lock_guard lock(mutex);
      if (round.has_value() && round->revision >= newest.revision) newest = *round;
      changed.notify_all();
    };
    const auto watch = engine().Watch(name, WatchScope::kEveryChange, take);
    take(*engine().GetRound(name));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done(newest); });
    return newest;
  }
  RoundSnapshot WaitUntilFinal(const std::string& name) {
    return WaitFor(name, [](const RoundSnapshot& round) { return IsFinal(round.state); });
  }

  std::shared_ptr<const PublishedResult> SealAndWait(const std::string& name) {
    const auto sealed = engine().SealRound(name);
    EXPECT_TRUE(sealed.ok()) << sealed.status();
    const RoundSnapshot round = WaitUntilFinal(name);
    EXPECT_EQ(round.state, RoundState::kPublished) << round.failure;
    return engine().Result(name).value();
  }

 private:
  const OpenStore open_store_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<UpdateStore> store_;
  std::unique_ptr<Engine> engine_;
};

MATCHER_P2(FailsWith, code, reason, "") {
  const absl::Status& status = arg;
  *result_listener << "which is " << status.ToString();
  return status.code() == code && ErrorReason(status) == reason;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_ENGINE_TESTING_H_
