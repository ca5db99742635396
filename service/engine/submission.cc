#include "service/engine/submission.h"

#include <utility>

#include "service/engine/names.h"
#include "service/engine/stored.h"
#include "sparse/status.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

PreparedUpdate Identify(const Round& round, const UpdateHeader& header,
                        std::span<const EncodedTensor> tensors, const UpdatePlan& plan,
                        PartialPayload* stored) {
  PreparedUpdate update;
  update.record.round = round.name();
  update.record.contributor = header.contributor;
  update.record.update_id = header.update_id;
  update.record.weight = header.weight;
  update.record.digest = UpdateDigest(header.weight, tensors, plan.order);
  update.payload_bytes = plan.payload_bytes;
  update.stored = stored;
  std::vector<EncodedHeader> headers;
  if (stored != nullptr) {
    headers = HeadersOf(tensors);
  } else {
    for (const size_t position : plan.order) {
      const EncodedTensor& tensor = tensors[position];
      headers.push_back(tensor.header);
      update.payload.insert(update.payload.end(), tensor.indices.begin(), tensor.indices.end());
      update.payload.insert(update.payload.end(), tensor.values.begin(), tensor.values.end());
    }
  }
  if (round.spec().durability == Durability::kDurable) update.headers = WriteHeaders(headers);
  return update;
}

}  // namespace

absl::Status CheckUpdateHeader(const UpdateHeader& header) {
  SPARSEAGG_RETURN_IF_ERROR(ValidateContributor(header.contributor));
  SPARSEAGG_RETURN_IF_ERROR(ValidateUpdateId(header.update_id));
  return ValidateWeight(header.weight);
}

absl::StatusOr<Receipt> SubmitUpdate(Round& round, const UpdateHeader& header,
                                     std::span<const EncodedTensor> tensors, const Limits& limits,
                                     Admission& admission, Reservation& staging,
                                     PartialPayload* stored) {
  SPARSEAGG_RETURN_IF_ERROR(CheckUpdateHeader(header));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto counted, round.Counted(header.contributor));
  std::shared_ptr<const TensorReducers> reducers;
  if (!counted.has_value()) {
    SPARSEAGG_ASSIGN_OR_RETURN(reducers, round.OpenReducers());
  }
  const std::vector<EncodedHeader> headers = HeadersOf(tensors);
  SPARSEAGG_ASSIGN_OR_RETURN(const UpdatePlan plan, PlanUpdate(round.spec(), headers, limits));
  SPARSEAGG_RETURN_IF_ERROR(CheckPayloadSizes(tensors));
  if (counted.has_value()) {
    // The store knows the contributor, so it compares and answers, and counts nothing: no need to
    // stage.
    PreparedUpdate resend = Identify(round, header, tensors, plan, stored);
    return round.Commit(resend, staging);
  }
  if (staging.bytes() < plan.staged_bytes) {
    SPARSEAGG_ASSIGN_OR_RETURN(staging, admission.Reserve(plan.staged_bytes));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(Reservation growth, reducers->ReserveGrowth(headers, plan));
  SPARSEAGG_ASSIGN_OR_RETURN(StagedTensors staged, reducers->Stage(tensors, plan, header.weight));
  PreparedUpdate update = Identify(round, header, tensors, plan, stored);
  update.staged = std::move(staged);
  update.growth = std::move(growth);
  return round.Commit(update, staging);
}

}  // namespace sparseagg
