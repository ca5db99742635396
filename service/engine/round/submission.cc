#include "service/engine/round/submission.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/ingest/arriving_update.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/engine/recovery/stored.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

std::string DigestOf(const Round& round, float weight, const UpdateBody& body,
                     const UpdateLayout& layout) {
  if (round.spec().durability == Durability::kDurable) {
    return UpdateDigest(weight, body.tensors, layout.order);
  }
  if (body.arrived != nullptr) {
    return QuickUpdateDigest(weight, body.tensors, body.arrived->sums(), layout.order);
  }
  return QuickUpdateDigest(weight, body.tensors, SumsOf(body.tensors), layout.order);
}

PreparedUpdate Identify(const Round& round, const UpdateHeader& header, const UpdateBody& body,
                        const UpdateLayout& layout) {
  PreparedUpdate update;
  update.record.round = round.name();
  update.record.contributor = header.contributor;
  update.record.update_id = header.update_id;
  update.record.weight = header.weight;
  update.record.digest = DigestOf(round, header.weight, body, layout);
  update.payload_bytes = layout.payload_bytes;
  for (const size_t position : layout.order) {
    update.nnz.push_back(body.tensors[position].header.nnz);
  }
  if (round.spec().durability != Durability::kDurable) return update;
  update.stored = body.stored;
  std::vector<EncodedHeader> headers;
  if (body.stored != nullptr) {
    headers = HeadersOf(body.tensors);
  } else {
    for (const size_t position : layout.order) {
      const EncodedTensor& tensor = body.tensors[position];
      headers.push_back(tensor.header);
      update.payload.insert(update.payload.end(), tensor.indices.begin(), tensor.indices.end());
      update.payload.insert(update.payload.end(), tensor.values.begin(), tensor.values.end());
    }
  }
  update.headers = WriteHeaders(headers);
  return update;
}

absl::StatusOr<StagedTensors> StagedOf(const TensorReducers& reducers, const UpdateBody& body,
                                       const UpdateLayout& layout, float weight) {
  if (body.arrived != nullptr) return body.arrived->Take();
  return reducers.Stage(body.tensors, layout, weight);
}

// Makes `staging` at least `bytes`.
absl::Status GrowTo(uint64_t bytes, Admission& admission, Reservation& staging) {
  if (bytes <= staging.bytes()) return absl::OkStatus();
  SPARSEAGG_ASSIGN_OR_RETURN(const Reservation more, admission.Reserve(bytes - staging.bytes()));
  staging.SetBytes(bytes);
  return absl::OkStatus();
}

// A root counts a leaf that it has given up by an empty partial aggregate of this update_id
// (round_tree.h), so nothing else may have it.
absl::Status CheckGivenUp(const Round& round, std::string_view update_id,
                          const RoundPartial& partial) {
  if (!round.spec().tree.is_root() || update_id != kGivenUpId) return absl::OkStatus();
  const bool is_empty = partial.covered.empty() &&
                        std::ranges::all_of(partial.entries, [](uint64_t n) { return n == 0; });
  if (is_empty) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_UPDATE_ID",
                   absl::StrCat("update_id ", Quoted(update_id),
                                " says that a leaf was given up, and this partial aggregate is not "
                                "empty; send it with another one"));
}

// Reads the partial aggregate that is the body of an update. Its memory is added to `staging`,
// which must be a reservation.
absl::StatusOr<std::shared_ptr<RoundPartial>> ReadBody(const Round& round, float weight,
                                                       const UpdateBody& body, Admission& admission,
                                                       Reservation& staging) {
  const ByteChain pieces = body.tensors.front().values;
  std::string joined;
  if (pieces.size() > 1) {
    const uint64_t bytes = body.tensors.front().header.values_bytes;
    SPARSEAGG_RETURN_IF_ERROR(GrowTo(staging.bytes() + bytes, admission, staging));
    joined.reserve(bytes);
    for (const std::string_view piece : pieces) joined += piece;
  }
  const uint64_t held = staging.bytes();
  const PartialReading reading{.specs = round.spec().tensors, .reserve = [&](uint64_t bytes) {
                                 return GrowTo(held + bytes, admission, staging);
                               }};
  SPARSEAGG_ASSIGN_OR_RETURN(
      RoundPartial partial,
      ReadPartial(pieces.size() == 1 ? pieces.front() : std::string_view(joined), reading));
  if (!partial.named) {
    return MakeError(absl::StatusCode::kInvalidArgument, "PARTIAL_NOT_NAMED",
                     "the partial aggregate does not say which contributors it covers, so they "
                     "could be counted twice; send one that a server's round has published");
  }
  if (weight != 1.0f) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_WEIGHT",
                     "a partial aggregate has the weights of its updates; leave the weight out");
  }
  return std::make_shared<RoundPartial>(std::move(partial));
}

absl::StatusOr<Receipt> SubmitPartial(Round& round, const TensorReducers& reducers,
                                      const UpdateBody& body, PreparedUpdate update,
                                      Admission& admission, Reservation& staging) {
  SPARSEAGG_ASSIGN_OR_RETURN(update.partial,
                             ReadBody(round, update.record.weight, body, admission, staging));
  SPARSEAGG_RETURN_IF_ERROR(CheckGivenUp(round, update.record.update_id, *update.partial));
  if (round.spec().tree.is_root()) {
    // An owner takes the partial aggregates of the round that its rows are of.
    const auto& part = round.spec().tree.part;
    SPARSEAGG_RETURN_IF_ERROR(
        CheckCovered(round.spec().tree, part.has_value() ? part->round : PublicName(round.name()),
                     update.record.contributor, update.partial->covered));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(update.growth, reducers.ReserveMerge(*update.partial));
  update.nnz = update.partial->entries;
  return round.Commit(update, staging);
}

}  // namespace

SubmissionReport ReportOf(const UpdateHeader& header, const UpdateBody& body,
                          const absl::StatusOr<Receipt>& receipt,
                          std::chrono::duration<double> time) {
  SubmissionReport report{.header = header, .status = receipt.status()};
  report.duplicate = receipt.ok() && receipt->duplicate;
  report.seconds = time.count();
  for (const EncodedTensor& tensor : body.tensors) {
    report.payload_bytes += tensor.header.indices_bytes + tensor.header.values_bytes;
    report.nnz += tensor.header.nnz;
  }
  return report;
}

absl::Status CheckUpdateHeader(const Round& round, const UpdateHeader& header, bool is_partial) {
  SPARSEAGG_RETURN_IF_ERROR(CheckUpdateHeader(header));
  return CheckLeaf(round.spec().tree, PublicName(round.name()), header.contributor, is_partial);
}

absl::Status CheckUpdateHeader(const UpdateHeader& header) {
  SPARSEAGG_RETURN_IF_ERROR(ValidateContributor(header.contributor));
  SPARSEAGG_RETURN_IF_ERROR(ValidateUpdateId(header.update_id));
  return ValidateWeight(header.weight);
}

absl::StatusOr<Receipt> SubmitUpdate(Round& round, const UpdateHeader& header,
                                     const UpdateBody& body, const Limits& limits,
                                     Admission& admission, Reservation& staging) {
  const std::vector<EncodedHeader> headers = HeadersOf(body.tensors);
  SPARSEAGG_RETURN_IF_ERROR(CheckUpdateHeader(round, header, IsPartialBody(headers)));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto counted, round.Counted(header.contributor));
  std::shared_ptr<const TensorReducers> reducers;
  if (!counted.has_value()) {
    SPARSEAGG_ASSIGN_OR_RETURN(reducers, round.OpenReducers());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const UpdateLayout layout,
                             MakeBodyLayout(round.spec(), headers, limits));
  if (body.arrived == nullptr) SPARSEAGG_RETURN_IF_ERROR(CheckPayloadSizes(body.tensors));
  if (counted.has_value()) {
    // The store knows the contributor, so it only compares the digests; the update need not be
    // staged.
    PreparedUpdate resend = Identify(round, header, body, layout);
    return round.Commit(resend, staging);
  }
  if (staging.bytes() < layout.staged_bytes) {
    SPARSEAGG_ASSIGN_OR_RETURN(staging, admission.Reserve(layout.staged_bytes));
  }
  if (IsPartialBody(headers)) {
    return SubmitPartial(round, *reducers, body, Identify(round, header, body, layout), admission,
                         staging);
  }
  SPARSEAGG_ASSIGN_OR_RETURN(Reservation growth, reducers->ReserveGrowth(headers, layout));
  SPARSEAGG_ASSIGN_OR_RETURN(StagedTensors staged,
                             StagedOf(*reducers, body, layout, header.weight));
  PreparedUpdate update = Identify(round, header, body, layout);
  update.staged = std::move(staged);
  update.growth = std::move(growth);
  absl::StatusOr<Receipt> receipt = round.Commit(update, staging);
  // If the update was not counted, the entries are still in `update`.
  if (body.arrived != nullptr) body.arrived->PutBack(std::move(update.staged));
  return receipt;
}

}  // namespace sparseagg
