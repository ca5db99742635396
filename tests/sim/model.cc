#include "tests/sim/model.h"

namespace sparseagg::sim {

Entries EntriesOf(const Update& update) {
  Entries entries;
  // Rows differ between contributors and overlap.
  uint64_t number = 1 + static_cast<uint64_t>(update.variant) * 7919;
  for (const char c : update.contributor) number = number * 31 + static_cast<uint64_t>(c);
  const uint64_t count = number % 5;
  for (uint64_t i = 0; i < count; ++i) {
    number = number * 6364136223846793005u + 1442695040888963407u;
    entries[static_cast<int64_t>(number >> 40) % 12] =
        static_cast<double>((number >> 20) % 257) / 8 - 16;
  }
  if (IsLong(update)) entries.try_emplace(0, 0);
  return entries;
}

bool IsLong(const Update& update) { return update.variant == 3; }

double Round::TotalWeight() const {
  double total = 0;
  for (const auto& [contributor, update] : counted) total += static_cast<double>(update.weight);
  return total;
}

Entries Round::Result() const {
  Entries sums;
  for (const auto& [contributor, update] : counted) {
    for (const auto& [row, value] : EntriesOf(update)) {
      sums[row] += static_cast<double>(update.weight) * value;
    }
  }
  if (op == "weighted_mean") {
    for (auto& [row, sum] : sums) sum = TotalWeight() == 0 ? 0 : sum / TotalWeight();
  }
  return sums;
}

bool Round::PastDeadline(Time now) const {
  return policy.open_for.count() != 0 && now >= created + policy.open_for;
}

bool Round::Closing(Time now) const {
  if (PastDeadline(now)) return true;
  if (policy.goal == 0 || counted.size() < policy.goal) return false;
  const bool full = policy.max != 0 && counted.size() >= policy.max;
  return full || policy.grace.count() == 0 || now >= *goal_reached + policy.grace;
}

std::string Model::Create(const std::string& name, const Round& round) {
  const auto same_request = [&](const auto& entry) {
    return !round.request_id.empty() && entry.second.request_id == round.request_id;
  };
  for (const auto& entry : rounds) {
    if (!same_request(entry)) continue;
    const bool same = entry.first == name && entry.second.durable == round.durable &&
                      entry.second.op == round.op && entry.second.policy == round.policy;
    return same ? "" : "REQUEST_ID_CONFLICT";
  }
  return rounds.emplace(name, round).second ? "" : "ROUND_EXISTS";
}

std::string Model::Seal(const std::string& name) {
  const auto found = rounds.find(name);
  if (found == rounds.end()) return "ROUND_NOT_FOUND";
  RoundState& state = found->second.state;
  if (state == RoundState::kAborted) return "ROUND_NOT_OPEN";
  if (state != RoundState::kOpen) return "";
  if (found->second.counted.size() < found->second.policy.min) return "INSUFFICIENT_CONTRIBUTORS";
  state = RoundState::kSealed;
  return "";
}

std::string Model::Abort(const std::string& name) {
  const auto found = rounds.find(name);
  if (found == rounds.end()) return "ROUND_NOT_FOUND";
  RoundState& state = found->second.state;
  if (state == RoundState::kPublished) return "ROUND_NOT_ABORTABLE";
  state = RoundState::kAborted;
  return "";
}

std::string Model::Delete(const std::string& name) {
  const auto found = rounds.find(name);
  if (found == rounds.end()) return "ROUND_NOT_FOUND";
  if (!IsFinal(found->second.state)) return "ROUND_NOT_FINAL";
  rounds.erase(found);
  return "";
}

std::optional<Answer> Model::ExpectedHeaderAnswer(const Update& update, Time now) const {
  const auto found = rounds.find(update.round);
  if (found == rounds.end()) return Answer{"ROUND_NOT_FOUND"};
  const Round& round = found->second;
  if (update.flaw == "INVALID_WEIGHT") return Answer{update.flaw};
  if (round.state == RoundState::kAborted) return Answer{"ROUND_NOT_OPEN"};
  const auto counted = round.counted.find(update.contributor);
  const bool is_counted = counted != round.counted.end();
  if (!is_counted && (round.state != RoundState::kOpen || round.Closing(now))) {
    return Answer{"ROUND_NOT_OPEN"};
  }
  const bool full = round.policy.max != 0 && round.counted.size() >= round.policy.max;
  if (!is_counted && full) return Answer{"ROUND_FULL"};
  if (update.flaw == "UNKNOWN_TENSOR") return Answer{update.flaw};
  if (!is_counted) return std::nullopt;
  if (counted->second.update_id != update.update_id) return Answer{"CONTRIBUTOR_ALREADY_COUNTED"};
  if (counted->second.weight != update.weight) return Answer{"DIGEST_CONFLICT"};
  return Answer{"", true, round.sequences.at(update.contributor)};
}

Answer Model::ExpectedUploadAnswer(const Update& update, Time now) const {
  const auto answer = ExpectedHeaderAnswer(update, now);
  if (answer.has_value()) return *answer;
  if (!update.flaw.empty()) return {update.flaw};
  return {"", false, rounds.at(update.round).counted.size() + 1};
}

Answer Model::ExpectedAnswer(const Update& update, Time now) const {
  const Answer answer = ExpectedUploadAnswer(update, now);
  if (!answer.duplicate) return answer;
  const Update& counted = rounds.at(update.round).counted.at(update.contributor);
  const bool same = counted.flaw == update.flaw && EntriesOf(counted) == EntriesOf(update) &&
                    IsLong(counted) == IsLong(update);
  return same ? answer : Answer{"DIGEST_CONFLICT"};
}

void Model::Count(const Update& update, Time now) {
  Round& round = rounds.at(update.round);
  round.counted.emplace(update.contributor, update);
  round.sequences.emplace(update.contributor, round.counted.size());
  if (round.counted.size() == round.policy.goal) round.goal_reached = now;
}

void Model::Crash() {
  std::erase_if(rounds, [](const auto& entry) { return !entry.second.durable; });
  for (auto& [name, round] : rounds) {
    round.grace_uncertain |= round.goal_reached.has_value() && round.policy.grace.count() != 0;
  }
}

}  // namespace sparseagg::sim
