#include "client/wire/from_proto.h"

#include <utility>

#include "base/status.h"
#include "proto/convert.h"

namespace sparseagg::client {
namespace {

static_assert(static_cast<int>(RoundState::kOpen) == v1::ROUND_STATE_OPEN);
static_assert(static_cast<int>(RoundState::kSealed) == v1::ROUND_STATE_SEALED);
static_assert(static_cast<int>(RoundState::kPublished) == v1::ROUND_STATE_PUBLISHED);
static_assert(static_cast<int>(RoundState::kRetired) == v1::ROUND_STATE_RETIRED);
static_assert(static_cast<int>(RoundState::kAborted) == v1::ROUND_STATE_ABORTED);
static_assert(static_cast<int>(Durability::kMemory) == v1::DURABILITY_MEMORY);
static_assert(static_cast<int>(Durability::kDurable) == v1::DURABILITY_DURABLE);

Time ToTime(const google::protobuf::Timestamp& stamp) {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(stamp.seconds()) +
                                                         std::chrono::nanoseconds(stamp.nanos())));
}

static_assert(static_cast<int>(SealReason::kRequested) == v1::SEAL_REASON_REQUESTED);
static_assert(static_cast<int>(SealReason::kGoal) == v1::SEAL_REASON_GOAL);
static_assert(static_cast<int>(SealReason::kDeadline) == v1::SEAL_REASON_DEADLINE);

std::chrono::milliseconds ToMilliseconds(const google::protobuf::Duration& duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::seconds(duration.seconds()) + std::chrono::nanoseconds(duration.nanos()));
}

RoundPolicy ToPolicy(const v1::RoundPolicy& proto) {
  RoundPolicy policy;
  policy.goal_contributors = proto.goal_contributors();
  policy.grace = ToMilliseconds(proto.grace());
  policy.min_contributors = proto.min_contributors();
  policy.max_contributors = proto.max_contributors();
  if (proto.has_open_for()) policy.open_for = ToMilliseconds(proto.open_for());
  if (proto.has_open_until()) policy.open_until = ToTime(proto.open_until());
  if (proto.has_leaf_wait()) policy.leaf_wait = ToMilliseconds(proto.leaf_wait());
  return policy;
}

StoreEpoch ToEpoch(const v1::StoreEpoch& proto) { return {proto.store_id(), proto.epoch()}; }

TensorStatus ToTensorStatus(const v1::TensorStatus& proto) {
  TensorStatus status;
  status.name = proto.name();
  status.backend = proto.backend();
  status.plan = proto.plan();
  status.plan_reason = proto.plan_reason();
  status.nnz_received = proto.nnz_received();
  status.nnz_result = proto.nnz_result();
  status.predicted_seconds = proto.predicted_seconds();
  status.measured_seconds = proto.measured_seconds();
  return status;
}

BackendStatus ToBackendStatus(const v1::BackendInfo& proto) {
  BackendStatus backend;
  backend.name = proto.name();
  backend.description = proto.description();
  backend.available = proto.available();
  backend.unavailable_reason = proto.unavailable_reason();
  backend.plans.assign(proto.plans().begin(), proto.plans().end());
  backend.selected = proto.selected();
  backend.devices.assign(proto.devices().begin(), proto.devices().end());
  return backend;
}

}  // namespace

Manifest FromProto(const v1::Manifest& proto) {
  Manifest manifest;
  manifest.contributors = proto.contributors();
  manifest.total_weight = proto.total_weight();
  manifest.rejected = {proto.rejected().begin(), proto.rejected().end()};
  manifest.duplicates = proto.duplicates();
  manifest.updates_digest = proto.updates_digest();
  manifest.result_digest = proto.result_digest();
  manifest.infinite_values = proto.infinite_values();
  if (proto.has_publish_time()) manifest.publish_time = ToTime(proto.publish_time());
  manifest.seal_reason = static_cast<SealReason>(proto.seal_reason());
  manifest.given_up_leaves.assign(proto.given_up_leaves().begin(), proto.given_up_leaves().end());
  manifest.late = {proto.late().begin(), proto.late().end()};
  for (const v1::ResultPart& part : proto.parts()) {
    manifest.parts.push_back({{part.owner().id(), part.owner().address()}, part.round()});
  }
  return manifest;
}

absl::StatusOr<RoundInfo> FromProto(const v1::Round& proto) {
  RoundInfo round;
  round.name = proto.name();
  if (proto.state() == v1::ROUND_STATE_UNSPECIFIED || !v1::RoundState_IsValid(proto.state())) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_ROUND_STATE",
                     "the state of " + proto.name() +
                         " is unknown to this version; use a client as new as the server");
  }
  round.state = static_cast<RoundState>(proto.state());
  for (const v1::TensorSpec& tensor : proto.spec().tensors()) {
    SPARSEAGG_ASSIGN_OR_RETURN(TensorSpec spec, sparseagg::FromProto(tensor));
    round.tensors.push_back(std::move(spec));
  }
  round.durability = static_cast<Durability>(proto.spec().durability());
  if (proto.has_create_time()) round.create_time = ToTime(proto.create_time());
  if (proto.has_seal_time()) round.seal_time = ToTime(proto.seal_time());
  if (proto.has_publish_time()) round.publish_time = ToTime(proto.publish_time());
  round.contributors = proto.contributors();
  round.bytes_received = proto.bytes_received();
  for (const v1::TensorStatus& tensor : proto.tensors()) {
    round.tensor_status.push_back(ToTensorStatus(tensor));
  }
  if (proto.has_manifest()) round.manifest = FromProto(proto.manifest());
  round.failure = proto.failure();
  round.revision = proto.revision();
  round.policy = ToPolicy(proto.spec().policy());
  round.keep_updates = proto.spec().keep_updates_until_deleted();
  round.seal_reason = static_cast<SealReason>(proto.seal_reason());
  if (proto.has_close_time()) round.close_time = ToTime(proto.close_time());
  if (proto.has_time_left()) round.time_left = ToMilliseconds(proto.time_left());
  round.goal_reached = proto.goal_reached();
  round.may_be_restored = proto.may_be_restored();
  round.stall = proto.stall();
  round.epoch = ToEpoch(proto.epoch());
  round.publish_partial = proto.spec().publish_partial();
  for (const v1::Leaf& leaf : proto.spec().tree().leaves()) {
    round.tree.leaves.push_back({leaf.id(), leaf.address()});
  }
  round.tree.self = proto.spec().tree().self();
  return round;
}

Receipt FromProto(const v1::Receipt& proto) {
  Receipt receipt;
  receipt.round = proto.round();
  receipt.contributor = proto.contributor();
  receipt.update_id = proto.update_id();
  receipt.duplicate = proto.duplicate();
  receipt.sequence = proto.sequence();
  receipt.digest = proto.digest();
  receipt.durability = static_cast<Durability>(proto.durability());
  receipt.epoch = ToEpoch(proto.epoch());
  return receipt;
}

Verification FromProto(const v1::VerifyRoundResponse& proto) {
  return {.contributors = proto.contributors(),
          .bytes_read = proto.bytes_read(),
          .updates_digest = proto.updates_digest(),
          .result_digest = proto.result_digest(),
          .backend = proto.backend()};
}

ServerInfo FromProto(const v1::ServerInfo& proto) {
  ServerInfo info;
  info.version = proto.version();
  for (const v1::BackendInfo& backend : proto.backends()) {
    info.backends.push_back(ToBackendStatus(backend));
  }
  info.operators.assign(proto.operators().begin(), proto.operators().end());
  info.encodings.assign(proto.encodings().begin(), proto.encodings().end());
  info.values_encodings.assign(proto.values_encodings().begin(), proto.values_encodings().end());
  for (const int type : proto.value_types()) {
    // Skips unknown types: a newer server may have types that this version does not support.
    if (type != v1::VALUE_TYPE_UNSPECIFIED && v1::ValueType_IsValid(type)) {
      info.value_types.push_back(static_cast<ValueType>(type));
    }
  }
  for (const v1::Limit& limit : proto.limits()) {
    info.limits.push_back({limit.name(), limit.value(), limit.unit(), limit.help()});
  }
  info.default_durability = static_cast<Durability>(proto.default_durability());
  for (const int durability : proto.durabilities()) {
    info.durabilities.push_back(static_cast<Durability>(durability));
  }
  info.epoch = ToEpoch(proto.epoch());
  if (proto.has_load()) {
    const v1::ServerLoad& load = proto.load();
    info.load = {.staging_bytes = load.staging_bytes(),
                 .aggregation_bytes = load.aggregation_bytes(),
                 .upload_disk_bytes = load.upload_disk_bytes(),
                 .open_uploads = load.open_uploads(),
                 .rounds = load.rounds(),
                 .calls = load.calls()};
  }
  for (const v1::LeafStatus& leaf : proto.leaves()) {
    info.leaves.push_back({.leaf = {leaf.leaf().id(), leaf.leaf().address()},
                           .up = leaf.up(),
                           .silent_for = ToMilliseconds(leaf.silent_for()),
                           .error = leaf.error(),
                           .rounds = leaf.rounds(),
                           .partial_bytes = leaf.partial_bytes(),
                           .given_up = leaf.given_up()});
  }
  return info;
}

}  // namespace sparseagg::client
