#include "service/engine/round/round_spec.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

std::string_view DurabilityName(Durability durability) {
  return durability == Durability::kDurable ? "durable" : "memory";
}

absl::Status CheckDurability(Durability durability, const UpdateStore& store) {
  if (store.Supports(durability)) return absl::OkStatus();
  std::string supported;
  for (const Durability other : {Durability::kMemory, Durability::kDurable}) {
    if (!store.Supports(other)) continue;
    absl::StrAppend(&supported, supported.empty() ? "" : ", ", std::string(DurabilityName(other)));
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, "DURABILITY_UNSUPPORTED",
      absl::StrCat("this server does not offer durability \"",
                   std::string(DurabilityName(durability)), "\"; it offers: ", supported));
}

auto Fields(const TensorSpec& spec) {
  return std::tie(spec.name, spec.value_type, spec.dense_shape, spec.sparse_dim, spec.op,
                  spec.integer_overflow, spec.plan);
}

}  // namespace

absl::StatusOr<RoundSpec> NormaliseRoundSpec(RoundSpec spec, const EngineOptions& options,
                                             const UpdateStore& store) {
  if (spec.tensors.empty() || spec.tensors.size() > options.limits.round_tensors_max) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
        absl::StrCat("a round has at least 1 tensor and at most round-tensors-max = ",
                     options.limits.round_tensors_max, "; this one has ", spec.tensors.size()));
  }
  std::set<std::string_view> names;
  for (TensorSpec& tensor : spec.tensors) {
    if (!names.insert(tensor.name).second) {
      return MakeError(
          absl::StatusCode::kInvalidArgument, "DUPLICATE_TENSOR",
          absl::StrCat("tensor ", Quoted(tensor.name), " occurs twice in the specification"));
    }
    if (tensor.op.empty()) tensor.op = "sum";
  }
  if (spec.durability == Durability{}) spec.durability = options.default_durability;
  SPARSEAGG_RETURN_IF_ERROR(CheckDurability(spec.durability, store));
  if (spec.keep_updates && spec.durability != Durability::kDurable) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
        "keep_updates_until_deleted needs durability \"durable\": the updates of other "
        "rounds are not stored");
  }
  if (spec.keep_updates && spec.publish_partial) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_SPEC",
                     "keep_updates_until_deleted does not go with publish_partial: a partial "
                     "aggregate cannot be verified again; set it for the round that takes it");
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckPolicy(spec.policy, options.limits));
  SPARSEAGG_RETURN_IF_ERROR(CheckTree(spec.tree));
  if (spec.tree.part.has_value()) {
    SPARSEAGG_RETURN_IF_ERROR(CheckRowRange(spec.tree.part->rows, spec.tensors));
  }
  return spec;
}

bool SameSpec(const RoundSpec& a, const RoundSpec& b) {
  return a.durability == b.durability && a.policy == b.policy && a.keep_updates == b.keep_updates &&
         a.publish_partial == b.publish_partial && a.tree == b.tree &&
         std::equal(
             a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
             [](const TensorSpec& x, const TensorSpec& y) { return Fields(x) == Fields(y); });
}

}  // namespace sparseagg
