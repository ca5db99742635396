// Both stores of the task service in memory. They outlive a restart, as a disk does; it has no
// files, which would cost more than the inputs.
#ifndef SPARSEAGG_TESTS_FUZZ_TASK_STORES_H_
#define SPARSEAGG_TESTS_FUZZ_TASK_STORES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "service/store/store.h"
#include "service/store/task_row_store.h"

namespace sparseagg::fuzz {

// Accepts updates of any round. What the task service does not call does nothing.
class CountedUpdates : public UpdateStore {
 public:
  void Restart() { ++epoch_.epoch; }
  void Forget() { updates_.clear(); }

  bool Supports(Durability) const override { return true; }
  const StoreEpoch& Epoch() const override { return epoch_; }
  absl::StatusOr<PutResult> Put(UpdateRecord record, const UpdateContent&) override {
    const auto [put, is_new] = updates_.try_emplace({record.round, record.contributor}, record);
    return PutResult{is_new ? PutOutcome::kAccepted : PutOutcome::kDuplicate, put->second};
  }
  std::optional<UpdateRecord> Find(const std::string& round,
                                   const std::string& contributor) const override {
    const auto found = updates_.find({round, contributor});
    return found == updates_.end() ? std::nullopt : std::optional(found->second);
  }

  absl::Status OpenRound(const RoundRecord&) override { return absl::OkStatus(); }
  absl::Status SetRoundDetails(const std::string&, std::string_view) override { return Unused(); }
  absl::StatusOr<std::vector<UpdateRecord>> CloseRound(const std::string&,
                                                       std::string_view) override {
    return Unused();
  }
  absl::Status PublishRound(const std::string&, std::string_view, std::span<const std::string_view>,
                            bool) override {
    return Unused();
  }
  absl::Status ErasePayloads(const std::string&) override { return Unused(); }
  absl::Status AbortRound(const std::string&, std::string_view) override { return Unused(); }
  absl::Status EraseRound(const std::string&) override { return Unused(); }
  absl::Status RetireRound(const Tombstone&) override { return Unused(); }
  absl::Status ForgetTombstones(std::chrono::system_clock::time_point) override { return Unused(); }
  std::vector<RoundRecord> Rounds() const override { return {}; }
  std::vector<Tombstone> Tombstones() const override { return {}; }
  absl::Status ReadUpdates(const std::string&, const OnUpdate&) const override { return Unused(); }
  absl::StatusOr<std::string> ReadResult(const std::string&) const override { return Unused(); }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not of the task service"); }

  StoreEpoch epoch_{.store_id = "fuzz", .epoch = 1};
  std::map<std::pair<std::string, std::string>, UpdateRecord> updates_;
};

class RowsInMemory : public TaskRowStore {
 public:
  std::map<std::string, std::optional<std::string>> rows;  // nullopt: damaged
  bool is_full = false;

  absl::Status PutTaskRows(std::span<const TaskRow> changes, bool) override {
    if (is_full) return MakeError(absl::StatusCode::kResourceExhausted, "STORE_FULL", "simulated");
    for (const TaskRow& row : changes) {
      if (row.is_prefix) {
        std::erase_if(rows, [&](const auto& kept) { return kept.first.starts_with(row.key); });
      } else if (row.value.has_value()) {
        rows[row.key] = row.value;
      } else {
        rows.erase(row.key);
      }
    }
    return absl::OkStatus();
  }
  absl::Status ReadTaskRows(std::string_view prefix,
                            const std::function<void(TaskRow)>& on_row) const override {
    for (const auto& [key, value] : rows) {
      if (key.starts_with(prefix)) on_row({key, value});
    }
    return absl::OkStatus();
  }
};

}  // namespace sparseagg::fuzz

#endif  // SPARSEAGG_TESTS_FUZZ_TASK_STORES_H_
