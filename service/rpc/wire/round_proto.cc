#include "service/rpc/wire/round_proto.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/convert.h"
#include "service/rpc/wire/time_proto.h"
#include "service/rpc/wire/tree_proto.h"

namespace sparseagg {
namespace {

v1::TensorStatus ToProto(const TensorStatus& status) {
  v1::TensorStatus proto;
  proto.set_name(status.name);
  proto.set_backend(status.backend);
  proto.set_plan(status.reduction.plan);
  proto.set_plan_reason(status.reduction.reason);
  proto.set_predicted_seconds(status.reduction.predicted_seconds);
  proto.set_measured_seconds(status.reduction.seconds);
  proto.set_nnz_received(status.nnz_received);
  proto.set_nnz_result(status.nnz_result);
  return proto;
}

v1::RoundPolicy ToProto(const RoundPolicy& policy) {
  v1::RoundPolicy proto;
  proto.set_goal_contributors(policy.goal_contributors);
  if (policy.grace.count() > 0) SetDuration(policy.grace, proto.mutable_grace());
  proto.set_min_contributors(policy.min_contributors);
  proto.set_max_contributors(policy.max_contributors);
  if (policy.open_for) SetDuration(*policy.open_for, proto.mutable_open_for());
  if (policy.open_until) SetTimestamp(*policy.open_until, proto.mutable_open_until());
  if (policy.leaf_wait) SetDuration(*policy.leaf_wait, proto.mutable_leaf_wait());
  return proto;
}

absl::StatusOr<RoundPolicy> FromProto(const v1::RoundPolicy& proto) {
  // One more than the engine accepts, so that it refuses longer ones.
  constexpr auto kLongest = kPolicyTimeMax + std::chrono::milliseconds(1);
  RoundPolicy policy;
  policy.goal_contributors = proto.goal_contributors();
  policy.min_contributors = proto.min_contributors();
  policy.max_contributors = proto.max_contributors();
  if (proto.has_grace()) {
    SPARSEAGG_ASSIGN_OR_RETURN(policy.grace,
                               ToMilliseconds(&proto.grace(), "policy.grace", {}, kLongest));
  }
  if (proto.has_open_for()) {
    SPARSEAGG_ASSIGN_OR_RETURN(policy.open_for,
                               ToMilliseconds(&proto.open_for(), "policy.open_for", {}, kLongest));
  }
  if (proto.has_open_until()) policy.open_until = ToTime(proto.open_until());
  if (proto.has_leaf_wait()) {
    SPARSEAGG_ASSIGN_OR_RETURN(
        policy.leaf_wait, ToMilliseconds(&proto.leaf_wait(), "policy.leaf_wait", {}, kLongest));
  }
  return policy;
}

}  // namespace

static_assert(static_cast<int>(SealReason::kRequested) == v1::SEAL_REASON_REQUESTED);
static_assert(static_cast<int>(SealReason::kGoal) == v1::SEAL_REASON_GOAL);
static_assert(static_cast<int>(SealReason::kDeadline) == v1::SEAL_REASON_DEADLINE);

// The enums of the wire and of the engine have the same numbers.
static_assert(static_cast<int>(RoundState::kOpen) == v1::ROUND_STATE_OPEN);
static_assert(static_cast<int>(RoundState::kSealed) == v1::ROUND_STATE_SEALED);
static_assert(static_cast<int>(RoundState::kPublished) == v1::ROUND_STATE_PUBLISHED);
static_assert(static_cast<int>(RoundState::kRetired) == v1::ROUND_STATE_RETIRED);
static_assert(static_cast<int>(RoundState::kAborted) == v1::ROUND_STATE_ABORTED);
static_assert(static_cast<int>(Durability::kMemory) == v1::DURABILITY_MEMORY);
static_assert(static_cast<int>(Durability::kDurable) == v1::DURABILITY_DURABLE);

v1::Durability ToProto(Durability durability) { return static_cast<v1::Durability>(durability); }

v1::StoreEpoch ToProto(const StoreEpoch& epoch) {
  v1::StoreEpoch proto;
  proto.set_store_id(epoch.store_id);
  proto.set_epoch(epoch.epoch);
  return proto;
}

v1::VerifyRoundResponse ToProto(const Verification& verified) {
  v1::VerifyRoundResponse proto;
  proto.set_contributors(verified.contributors);
  proto.set_bytes_read(verified.bytes_read);
  proto.set_updates_digest(verified.updates_digest);
  proto.set_result_digest(verified.result_digest);
  proto.set_backend(verified.backend);
  return proto;
}

v1::RoundSpec ToProto(const RoundSpec& spec) {
  v1::RoundSpec proto;
  for (const TensorSpec& tensor : spec.tensors) *proto.add_tensors() = ToProto(tensor);
  proto.set_durability(ToProto(spec.durability));
  if (spec.policy != RoundPolicy()) *proto.mutable_policy() = ToProto(spec.policy);
  proto.set_keep_updates_until_deleted(spec.keep_updates);
  proto.set_publish_partial(spec.publish_partial);
  if (spec.tree != RoundTree()) *proto.mutable_tree() = ToProto(spec.tree);
  return proto;
}

v1::Manifest ToProto(const Manifest& manifest) {
  v1::Manifest proto;
  proto.set_contributors(manifest.contributors);
  proto.set_total_weight(manifest.total_weight);
  proto.mutable_rejected()->insert(manifest.rejected.begin(), manifest.rejected.end());
  proto.set_duplicates(manifest.duplicates);
  proto.set_updates_digest(manifest.updates_digest);
  proto.set_result_digest(manifest.result_digest);
  proto.set_infinite_values(manifest.infinite_values);
  SetTimestamp(manifest.publish_time, proto.mutable_publish_time());
  if (manifest.seal_reason) {
    proto.set_seal_reason(static_cast<v1::SealReason>(*manifest.seal_reason));
  }
  proto.mutable_late()->insert(manifest.late.begin(), manifest.late.end());
  proto.mutable_given_up_leaves()->Assign(manifest.given_up_leaves.begin(),
                                          manifest.given_up_leaves.end());
  for (const ResultPart& part : manifest.parts) *proto.add_parts() = ToProto(part);
  return proto;
}

v1::Round ToProto(const RoundSnapshot& round) {
  v1::Round proto;
  proto.set_name(round.name);
  proto.set_state(static_cast<v1::RoundState>(round.state));
  *proto.mutable_spec() = ToProto(round.spec);
  SetTimestamp(round.create_time, proto.mutable_create_time());
  if (round.seal_time) SetTimestamp(*round.seal_time, proto.mutable_seal_time());
  if (round.publish_time) SetTimestamp(*round.publish_time, proto.mutable_publish_time());
  proto.set_contributors(round.contributors);
  proto.set_bytes_received(round.bytes_received);
  for (const TensorStatus& tensor : round.tensors) *proto.add_tensors() = ToProto(tensor);
  if (round.manifest) *proto.mutable_manifest() = ToProto(*round.manifest);
  proto.set_failure(round.failure);
  proto.set_revision(round.revision);
  if (round.seal_reason) proto.set_seal_reason(static_cast<v1::SealReason>(*round.seal_reason));
  if (round.close_time) SetTimestamp(*round.close_time, proto.mutable_close_time());
  if (round.time_left) SetDuration(*round.time_left, proto.mutable_time_left());
  proto.set_goal_reached(round.goal_reached);
  *proto.mutable_epoch() = ToProto(round.epoch);
  proto.set_may_be_restored(round.may_be_restored);
  if (!round.stall.ok()) {
    proto.set_stall(absl::StrCat(ErrorReason(round.stall), ": ", round.stall.message()));
  }
  if (!round.spec.tree.self.empty()) {
    proto.mutable_leaf_start()->set_id(round.start.id);
    proto.mutable_leaf_start()->set_contributors(round.start.contributors);
  }
  return proto;
}

v1::ServerLoad ToProto(const EngineStats& stats) {
  v1::ServerLoad proto;
  proto.set_staging_bytes(stats.staged_bytes);
  proto.set_aggregation_bytes(stats.aggregation_bytes);
  proto.set_upload_disk_bytes(stats.upload_disk_bytes);
  proto.set_open_uploads(stats.open_uploads);
  for (const auto& [state, rounds] : stats.rounds) proto.set_rounds(proto.rounds() + rounds);
  return proto;
}

v1::Receipt ToProto(Receipt receipt) {
  v1::Receipt proto;
  proto.set_round(std::move(receipt.round));
  proto.set_contributor(std::move(receipt.contributor));
  proto.set_update_id(std::move(receipt.update_id));
  proto.set_duplicate(receipt.duplicate);
  proto.set_sequence(receipt.sequence);
  proto.set_digest(std::move(receipt.digest));
  proto.set_durability(ToProto(receipt.durability));
  *proto.mutable_epoch() = ToProto(receipt.epoch);
  return proto;
}

absl::StatusOr<RoundSpec> FromProto(const v1::RoundSpec& proto, Durability default_durability) {
  if (!v1::Durability_IsValid(proto.durability())) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "UNKNOWN_DURABILITY",
        absl::StrCat("durability ", static_cast<int>(proto.durability()),
                     " is unknown to this version; use DURABILITY_MEMORY or DURABILITY_DURABLE"));
  }
  RoundSpec spec;
  spec.durability = proto.durability() == v1::DURABILITY_UNSPECIFIED
                        ? default_durability
                        : static_cast<Durability>(proto.durability());
  SPARSEAGG_ASSIGN_OR_RETURN(spec.policy, FromProto(proto.policy()));
  spec.keep_updates = proto.keep_updates_until_deleted();
  spec.publish_partial = proto.publish_partial();
  spec.tree = FromProto(proto.tree());
  spec.tensors.reserve(proto.tensors_size());
  for (const v1::TensorSpec& tensor : proto.tensors()) {
    SPARSEAGG_ASSIGN_OR_RETURN(TensorSpec converted, FromProto(tensor));
    spec.tensors.push_back(std::move(converted));
  }
  return spec;
}

absl::StatusOr<std::chrono::milliseconds> ToMilliseconds(const google::protobuf::Duration* duration,
                                                         const char* field,
                                                         std::chrono::milliseconds unset,
                                                         std::chrono::milliseconds longest) {
  if (duration == nullptr) return unset;
  if (duration->seconds() < 0 || duration->nanos() < 0 || duration->nanos() > 999'999'999) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_DURATION",
                     absl::StrCat(field, " is ", duration->seconds(), " s and ", duration->nanos(),
                                  " ns; both must be at least 0 and the latter below 1000000000"));
  }
  if (duration->seconds() >= std::chrono::ceil<std::chrono::seconds>(longest).count())
    return longest;
  const auto exact =
      std::chrono::seconds(duration->seconds()) + std::chrono::nanoseconds(duration->nanos());
  return std::min(std::chrono::ceil<std::chrono::milliseconds>(exact), longest);
}

}  // namespace sparseagg
