#include "service/engine/ingest/arriving_update.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace sparseagg {

absl::StatusOr<std::unique_ptr<ArrivingUpdate>> ArrivingUpdate::Make(
    std::shared_ptr<const TensorReducers> reducers, std::span<const EncodedHeader> headers,
    const UpdateLayout& layout, float weight) {
  std::unique_ptr<ArrivingUpdate> update(new ArrivingUpdate(std::move(reducers)));
  update->tensors_.resize(headers.size());
  update->sums_.resize(headers.size());
  for (size_t i = 0; i < layout.order.size(); ++i) {
    const EncodedHeader& header = headers[layout.order[i]];
    SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(header.encoding));
    SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate staged, update->reducers_->StageOne(i, header));
    const MutableCooView& entries = staged.entries;
    update->tensors_[layout.order[i]] = {
        .position = i,
        .decoder = encoding->decoder(header, update->reducers_->spec().tensors[i], entries),
        .validator = std::make_unique<UpdateValidator>(update->reducers_->reduce_spec(i),
                                                       entries.view(), weight)};
    update->staged_.push_back(std::move(staged));
  }
  for (size_t i = 0; i < headers.size(); ++i) {
    update->sections_.push_back({i, /*is_values=*/false, headers[i].indices_bytes});
    update->sections_.push_back({i, /*is_values=*/true, headers[i].values_bytes});
  }
  return update;
}

uint64_t ArrivingUpdate::KeptBytes(std::span<const EncodedHeader> headers) {
  uint64_t bytes = 0;
  for (const EncodedHeader& header : headers) {
    const auto encoding = FindEncoding(header.encoding);
    if (encoding.ok()) bytes = std::max(bytes, (*encoding)->buffered_bytes(header));
  }
  return bytes;  // tensors are decoded one after the other
}

void ArrivingUpdate::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    Section& section = sections_[section_];
    const std::string_view part = bytes.substr(0, section.bytes_left);
    if (!part.empty() && first_error_.ok()) first_error_ = AppendTo(section, part);
    section.bytes_left -= part.size();
    bytes.remove_prefix(part.size());
    if (section.bytes_left > 0) continue;
    TensorSums& sums = sums_[section.tensor];
    (section.is_values ? sums.values : sums.indices) = sum_.Finish();
    ++section_;
  }
}

absl::Status ArrivingUpdate::AppendTo(const Section& section, std::string_view bytes) {
  Tensor& tensor = tensors_[section.tensor];
  sum_.Append(bytes);
  if (section.is_values) {
    SPARSEAGG_RETURN_IF_ERROR(tensor.decoder->AppendValues(bytes));
    tensor.validator->SetKnownFinite(tensor.decoder->finite_values());
    return tensor.validator->CheckValues(tensor.decoder->values());
  }
  SPARSEAGG_RETURN_IF_ERROR(tensor.decoder->AppendIndices(bytes));
  const EntryOrder order = tensor.decoder->order();
  if (order != EntryOrder::kUnknown) tensor.validator->SetKnownOrder(order);
  return absl::OkStatus();
}

absl::StatusOr<StagedTensors> ArrivingUpdate::Take() {
  SPARSEAGG_RETURN_IF_ERROR(first_error_);
  if (!std::exchange(finished_, true)) {
    for (const Tensor& tensor : tensors_) {
      StagedUpdate& staged = staged_[tensor.position];
      absl::StatusOr<EntryOrder> order = tensor.validator->Finish();
      if (!order.ok()) return first_error_ = order.status();
      staged.order = *order;
      UseWideRows(staged.entries);
      first_error_ = reducers_->CheckStaged(tensor.position, staged);
      SPARSEAGG_RETURN_IF_ERROR(first_error_);
    }
  }
  return std::move(staged_);
}

}  // namespace sparseagg
