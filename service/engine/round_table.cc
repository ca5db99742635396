#include "service/engine/round_table.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/round/round_spec.h"

namespace sparseagg {
namespace {

// Names forgotten while the lock is held, so that look-ups do not wait long.
constexpr size_t kForgetBatch = 1000;

std::string_view EndOf(const Tombstone& tombstone) {
  return IsPublished(tombstone.ended) ? "PUBLISHED" : "ABORTED";
}

std::string HowItEnded(const Tombstone& tombstone) {
  return absl::StrCat(
      "round \"", std::string(PublicName(tombstone.round)), "\" ended ",
      std::string(EndOf(tombstone)), " and was deleted at ",
      absl::FormatTime(absl::RFC3339_sec, absl::FromChrono(tombstone.erased), absl::UTCTimeZone()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Round>> RoundTable::FindRequest(const CreateRoundArgs& args) const {
  std::lock_guard lock(mutex_);
  return FindRequestLocked(args);
}

absl::StatusOr<std::shared_ptr<Round>> RoundTable::FindRequestLocked(
    const CreateRoundArgs& args) const {
  const auto request = name_by_request_.find(RequestOf(args));
  if (request != name_by_request_.end()) {
    const Entry& first = by_name_.find(request->second)->second;
    if (first.args.round_id == args.round_id && SameSpec(first.args.spec, args.spec)) {
      return first.round;
    }
    return MakeError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_CONFLICT",
                     absl::StrCat("request id \"", args.request_id, "\" created round \"",
                                  std::string(PublicName(first.round->name())),
                                  "\" with another id or specification; use a new request id"));
  }
  const std::string name = absl::StrCat(std::string(kRoundPrefix), args.round_id);
  if (!args.round_id.empty() && by_name_.contains(QualifiedName(args.tenant, name))) {
    return MakeError(
        absl::StatusCode::kAlreadyExists, "ROUND_EXISTS",
        absl::StrCat("round \"", name, "\" exists already; choose another id or delete it"));
  }
  if (args.tenant_rounds_max > 0 &&
      CountOf(rounds_by_tenant_, args.tenant) >= args.tenant_rounds_max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "TENANT_ROUNDS_FULL",
        absl::StrCat("tenant-rounds-max = ", args.tenant_rounds_max, " rounds of tenant \"",
                     args.tenant, "\" exist; delete those that are not needed any more"));
  }
  if (const auto erased = erased_.find(QualifiedName(args.tenant, name));
      !args.round_id.empty() && erased != erased_.end()) {
    return MakeError(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS",
                     absl::StrCat(HowItEnded(erased->second),
                                  "; until retry-horizon-ms is over its name is not given again, "
                                  "so that a late retry cannot count twice; choose another id"));
  }
  if (by_name_.size() >= rounds_max_) {
    return MakeError(absl::StatusCode::kResourceExhausted, "ROUNDS_FULL",
                     absl::StrCat("rounds-max = ", rounds_max_,
                                  " rounds exist; delete those that are not needed any more"));
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckErasedLocked(args));
  return nullptr;
}

absl::Status RoundTable::CheckErasedLocked(const CreateRoundArgs& args) const {
  const uint64_t of_tenant = args.tenant_rounds_max == 0 ? std::numeric_limits<uint64_t>::max()
                                                         : ErasedNamesMax(args.tenant_rounds_max);
  const bool tenant_is_full = CountOf(erased_by_tenant_, args.tenant) >= of_tenant;
  if (!tenant_is_full && erased_.size() < ErasedNamesMax(rounds_max_)) return absl::OkStatus();
  constexpr uint64_t kRetryAfterMs = 60'000;
  return WithRetryAfter(
      MakeError(absl::StatusCode::kResourceExhausted, "ROUND_NAMES_FULL",
                absl::StrCat(tenant_is_full ? of_tenant : erased_.size(),
                             " names of deleted rounds are remembered, as many as go with ",
                             tenant_is_full ? "tenant-rounds-max" : "rounds-max",
                             "; each is forgotten when retry-horizon-ms is over")),
      kRetryAfterMs);
}

absl::StatusOr<std::shared_ptr<Round>> RoundTable::Insert(
    const CreateRoundArgs& args, std::shared_ptr<Round> round,
    const std::function<absl::Status()>& open_in_store) {
  std::lock_guard one_at_a_time(insertion_);
  SPARSEAGG_ASSIGN_OR_RETURN(auto earlier, FindRequest(args));
  if (earlier != nullptr) return earlier;
  SPARSEAGG_RETURN_IF_ERROR(open_in_store());
  std::lock_guard lock(mutex_);
  if (!args.request_id.empty()) name_by_request_[RequestOf(args)] = round->name();
  by_name_[round->name()] = {round, args};
  ++rounds_by_tenant_[args.tenant];
  return round;
}

uint64_t RoundTable::CountOf(const Counts& counts, std::string_view tenant) {
  const auto found = counts.find(tenant);
  return found == counts.end() ? 0 : found->second;
}

absl::StatusOr<std::shared_ptr<Round>> RoundTable::Find(std::string_view name) const {
  const std::string_view public_name = PublicName(name);
  SPARSEAGG_RETURN_IF_ERROR(ValidateRoundName(public_name));
  std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second.round;
  if (const auto erased = erased_.find(name); erased != erased_.end()) {
    return WithMetadata(
        MakeError(absl::StatusCode::kNotFound, "ROUND_EXPIRED",
                  absl::StrCat(HowItEnded(erased->second), "; nothing is counted for it any more")),
        "ended", EndOf(erased->second));
  }
  return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                   absl::StrCat("round ", Quoted(public_name), " does not exist"));
}

bool RoundTable::Contains(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return by_name_.contains(name) || erased_.contains(name);
}

std::vector<std::shared_ptr<Round>> RoundTable::List(std::string_view after, size_t limit) const {
  std::vector<std::shared_ptr<Round>> rounds;
  std::lock_guard lock(mutex_);
  for (auto entry = by_name_.upper_bound(after); entry != by_name_.end() && rounds.size() < limit;
       ++entry) {
    rounds.push_back(entry->second.round);
  }
  return rounds;
}

void RoundTable::Erase(const Round& round) {
  std::lock_guard lock(mutex_);
  const auto found = by_name_.find(round.name());
  if (found == by_name_.end() || found->second.round.get() != &round) return;
  if (!found->second.args.request_id.empty()) {
    name_by_request_.erase(RequestOf(found->second.args));
  }
  --rounds_by_tenant_[found->second.args.tenant];
  by_name_.erase(found);
}

void RoundTable::Remember(const Tombstone& tombstone) {
  std::lock_guard lock(mutex_);
  const auto [known, is_new] = erased_.try_emplace(tombstone.round, tombstone);
  if (is_new) {
    ++erased_by_tenant_[std::string(TenantOf(tombstone.round))];
  } else {
    erased_by_time_.erase({known->second.erased, known->first});
    known->second = tombstone;
  }
  erased_by_time_.emplace(tombstone.erased, known->first);
}

bool RoundTable::ForgetErasedBefore(std::chrono::system_clock::time_point time) {
  size_t forgotten = ForgetSome(time);
  const bool any = forgotten > 0;
  while (forgotten == kForgetBatch) forgotten = ForgetSome(time);
  return any;
}

size_t RoundTable::ForgetSome(std::chrono::system_clock::time_point erased_before) {
  std::lock_guard lock(mutex_);
  size_t forgotten = 0;
  while (forgotten < kForgetBatch && !erased_by_time_.empty() &&
         erased_by_time_.begin()->first < erased_before) {
    const auto known = erased_.find(erased_by_time_.begin()->second);
    erased_by_time_.erase(erased_by_time_.begin());  // refers to the name
    --erased_by_tenant_.find(TenantOf(known->first))->second;
    erased_.erase(known);
    ++forgotten;
  }
  return forgotten;
}

}  // namespace sparseagg
