// What a result of the tree has to be: the bytes and digests of one server that gets the updates.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/service/tree/result_bytes.h"
#include "tests/sim/tree_simulation.h"

namespace sparseagg::sim {

// The id of an update that counts; empty: the contributor has sent several, got no receipt, and its
// leaf has lost which of them it took.
std::string TreeSimulation::IdOf(const Round& round, const std::string& contributor) {
  const auto stored = LeafNode(LeafOf(round, contributor)).store().Find(round.name, contributor);
  if (stored.has_value()) return stored->update_id;
  const Update& update = round.updates.at(contributor);
  return update.receipted || update.sent.size() == 1 ? update.update_id : "";
}

std::string TreeSimulation::CompareWithOneServer(Round& round, const Manifest& manifest) {
  Engine& engine = one_->engine();
  CreateRoundArgs args;
  args.round_id = round.name.substr(std::string_view("rounds/").size());
  args.spec = {.tensors = kTensors, .durability = Durability::kDurable};
  if (const auto created = engine.CreateRound(args); !created.ok()) {
    return created.status().ToString();
  }
  bool is_known = true;
  for (const std::string& contributor : *round.counted) {
    const std::string update_id = IdOf(round, contributor);
    is_known = is_known && !update_id.empty();
    testing::TestUpdate update = UpdateOf(round, contributor, update_id);
    if (!is_known) break;
    const auto receipt = engine.Submit(update.header, update.tensors());
    if (!receipt.ok()) return "one server: " + receipt.status().ToString();
  }
  const absl::Status sealed = engine.SealRound(round.name).status();
  one_->executor().WaitUntilIdle();
  const auto result = engine.Result(round.name);
  if (!sealed.ok() || !result.ok()) return "one server: " + result.status().ToString();
  if (is_known) {
    const Manifest& own = (*result)->manifest;
    if (manifest.result_digest != own.result_digest) return "one server has another result";
    if (manifest.updates_digest != own.updates_digest) return "one server has other updates";
    const auto bytes = testing::BytesOf(*result);
    if (!bytes.ok()) return "one server: " + bytes.status().ToString();
    round.bytes = *bytes;
    ++counts_.compared;
  }
  return engine.DeleteRound(round.name).ok() ? "" : "one server does not delete a round";
}

std::string TreeSimulation::CheckBytes(const Round& round, bool all_answer) {
  const auto result = tree_->Result(round.name);
  if (absl::IsNotFound(result.status()) && round.may_be_deleted) return "";
  if (!result.ok()) return "no result: " + result.status().ToString();
  const auto bytes = testing::BytesOf(*result);
  if (bytes.ok()) {
    ++counts_.read;
    return *bytes == round.bytes.value_or(*bytes) ? "" : "other bytes than those of one server";
  }
  const std::string reason = ErrorReason(bytes.status());
  if (reason == "OWNER_UNAVAILABLE" && !all_answer) return "";
  if (reason == "OWNER_LOST" && round.lost_a_leaf) return "";
  return "cannot be read: " + bytes.status().ToString();
}

}  // namespace sparseagg::sim
