// Every limit of the configuration, exceeded: the error names it, and its number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/config/config.h"
#include "service/rpc/stream/stream_pace.h"
#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

const TensorSpec& Tensor() {
  static const TensorSpec& tensor = *new TensorSpec(Sparse("t", 1'000'000));
  return tensor;
}

TestUpdate Update(const std::string& contributor, int64_t nnz) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < nnz; ++row) rows.push_back(row);
  TestUpdate update("rounds/r", contributor);
  update.Add<float>(Tensor(), rows, std::vector<float>(rows.size(), 1.0f));
  return update;
}

absl::Status Create(TestEngine& engine, const std::string& id, size_t tensors = 1,
                    Durability durability = Durability::kMemory) {
  RoundSpec spec{.tensors = {}, .durability = durability};
  for (size_t i = 0; i < tensors; ++i) {
    spec.tensors.push_back(Tensor());
    spec.tensors.back().name = absl::StrCat("t", i == 0 ? "" : absl::StrCat(i));
  }
  return engine->CreateRound({.round_id = id, .request_id = "", .spec = spec}).status();
}

absl::Status Submit(const Limits& limits, int64_t nnz) {
  TestEngine engine;
  engine.options.limits = limits;
  SPARSEAGG_RETURN_IF_ERROR(Create(engine, "r"));
  return engine.Submit(Update("a", nnz)).status();
}

absl::Status SecondRound(const Limits& limits) {
  TestEngine engine;
  engine.options.limits = limits;
  SPARSEAGG_RETURN_IF_ERROR(Create(engine, "r"));
  return Create(engine, "s");
}

absl::Status TensorsOfARound(const Limits& limits) {
  TestEngine engine;
  engine.options.limits = limits;
  return Create(engine, "r", 2);
}

absl::Status LongRound(const Limits& limits) {
  TestEngine engine;
  engine.options.limits = limits;
  const RoundSpec spec{.tensors = {Tensor()}, .policy = {.open_for = std::chrono::milliseconds(8)}};
  return engine->CreateRound({.round_id = "r", .request_id = "", .spec = spec}).status();
}

absl::Status SecondUpload(const Limits& limits) {
  TestEngine engine;
  engine.options.limits = limits;
  SPARSEAGG_RETURN_IF_ERROR(Create(engine, "r"));
  const TestUpdate a = Update("a", 10);
  const auto first = engine->BeginUpload(a.header, a.headers());
  SPARSEAGG_RETURN_IF_ERROR(first.status());
  const TestUpdate b = Update("b", 10);
  return engine->BeginUpload(b.header, b.headers()).status();
}

// A large upload of a durable round.
absl::Status OnDisk(const Limits& limits, uint64_t free_bytes_min = 0) {
  testing::TemporaryFolder folder;
  TestEngine engine(testing::MakeBackend("cpu"), [&] {
    return OpenDurableStore({.directory = folder.path(), .free_bytes_min = free_bytes_min}).value();
  });
  engine.options.limits = limits;
  SPARSEAGG_RETURN_IF_ERROR(Create(engine, "r", 1, Durability::kDurable));
  const TestUpdate update = Update("a", 20'000);
  return engine->BeginUpload(update.header, update.headers()).status();
}

absl::Status Pace(const Limits& limits, bool idle, bool uploading) {
  StreamPace pace(limits);
  const StreamPace::Time begin;
  pace.BeginWait(begin);
  const auto later = begin + std::chrono::hours(100);
  return idle ? pace.CheckIdle(later, uploading) : pace.EndWait(later, 1, uploading);
}

struct Case {
  std::function<absl::Status()> exceed;
  std::string text;  // beside the name; by default "{name} = 7"
};

std::map<std::string, Case, std::less<>> Cases() {
  return {
      {"store-free-bytes-min",
       {[] { return OnDisk({}, uint64_t{1} << 60); }, absl::StrCat(uint64_t{1} << 60)}},
      {"round-open-ms-max", {[] { return LongRound({.round_open_ms_max = 7}); }, ""}},
      {"update-bytes-max", {[] { return Submit({.update_bytes_max = 7}, 10); }, ""}},
      {"update-nnz-max", {[] { return Submit({.update_nnz_max = 7}, 10); }, ""}},
      {"staging-bytes-max", {[] { return Submit({.staging_bytes_max = 7}, 10); }, ""}},
      {"aggregation-bytes-max", {[] { return Submit({.aggregation_bytes_max = 7}, 10); }, ""}},
      {"round-tensors-max", {[] { return TensorsOfARound({.round_tensors_max = 1}); }, " = 1"}},
      {"rounds-max", {[] { return SecondRound({.rounds_max = 1}); }, " = 1"}},
      {"result-nnz-max", {[] { return Submit({.result_nnz_max = 7}, 10); }, ""}},
      {"open-uploads-max", {[] { return SecondUpload({.open_uploads_max = 1}); }, " = 1"}},
      {"upload-disk-bytes-max", {[] { return OnDisk({.upload_disk_bytes_max = 7}); }, ""}},
      {"upload-idle-ms", {[] { return Pace({.upload_idle_ms = 7}, true, true); }, ""}},
      {"upload-rate-min", {[] { return Pace({.upload_rate_min = 7}, false, true); }, ""}},
      {"upload-rate-window-ms",
       {[] { return Pace({.upload_rate_window_ms = 7}, false, true); }, ""}},
      {"stream-idle-ms", {[] { return Pace({.stream_idle_ms = 7}, true, false); }, ""}},
  };
}

// Nobody exceeds the first two by a request. The others are limits of the network's edge, and of
// tenants, and of tasks: get_aggregate_test.cc, tenant_limits_test.cc, tasks_test.cc.
bool IsTestedElsewhere(std::string_view limit) {
  return limit == "result-retention-ms" || limit == "retry-horizon-ms" ||
         limit == "message-bytes-max" || limit == "dense-result-bytes-max" ||
         limit.starts_with("tenant-") || limit.starts_with("task");
}

TEST(LimitsTest, AnErrorNamesTheLimitThatItIsAbout) {
  const auto cases = Cases();
  for (const Setting& setting : Settings()) {
    if (!setting.is_limit || IsTestedElsewhere(setting.name)) continue;
    const auto found = cases.find(setting.name);
    ASSERT_NE(found, cases.end()) << setting.name << " has no case here";
    const absl::Status error = found->second.exceed();
    EXPECT_FALSE(error.ok()) << setting.name;
    const std::string message(error.message());
    EXPECT_THAT(message, HasSubstr(std::string(setting.name)));
    EXPECT_THAT(message, HasSubstr(found->second.text.empty() ? " = 7" : found->second.text));
    EXPECT_FALSE(ErrorReason(error).empty()) << setting.name;
  }
}

TEST(LimitsTest, EveryLimitIsExplainedToOperators) {
  for (const Setting& setting : Settings()) {
    if (!setting.is_limit) continue;
    EXPECT_FALSE(setting.unit.empty()) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
}

}  // namespace
}  // namespace sparseagg
