#include "service/rpc/result/divided_answer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/result/part_reader.h"
#include "service/rpc/result/result_writer.h"
#include "service/rpc/result/selection.h"
#include "service/rpc/wire/round_proto.h"

namespace sparseagg {
namespace {

size_t TensorNamed(const PublishedResult& result, const std::string& name) {
  size_t tensor = 0;
  while (result.result_specs[tensor].name != name) ++tensor;
  return tensor;
}

}  // namespace

struct DividedAnswer::Opening {
  std::shared_ptr<DividedAnswer> answer;
  Opened opened;
  std::mutex mutex;  // guards what follows
  size_t missing = 0;
  std::vector<v1::ReadResultResponse> answers;  // [parts]
  absl::Status failed;
};

void DividedAnswer::Open(std::shared_ptr<const PublishedResult> result,
                         const v1::GetAggregateRequest& request, uint64_t dense_bytes_max,
                         const Opened& opened) {
  // It checks the request, which needs no rows.
  const absl::Status valid = ResultWriter::Make(result, request, dense_bytes_max).status();
  if (!valid.ok()) return opened(valid);
  const auto opening = std::make_shared<Opening>();
  opening->opened = opened;
  opening->answer = std::make_shared<DividedAnswer>();
  DividedAnswer& answer = *opening->answer;
  answer.result_ = std::move(result);
  answer.is_dense_ = request.layout() == v1::RESULT_LAYOUT_DENSE;
  answer.header_.set_round(request.name());
  *answer.header_.mutable_manifest() = ToProto(answer.result_->manifest);
  answer.SplitSelections(request);
  const std::vector<ResultPart>& parts = answer.result_->manifest.parts;
  opening->missing = parts.size();
  opening->answers.resize(parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    v1::ReadResultRequest ask;
    *ask.mutable_result() = answer.requests_[part];
    ask.set_bytes(1);
    answer.result_->parts->Read(
        parts[part], ask, [opening, part](absl::StatusOr<v1::ReadResultResponse> found) {
          {
            const std::lock_guard lock(opening->mutex);
            if (found.ok()) {
              opening->answers[part] = *std::move(found);
            } else {
              opening->failed.Update(found.status());
            }
            if (--opening->missing > 0) return;
          }
          // The last answer; nobody else uses them now.
          if (opening->failed.ok()) opening->failed = opening->answer->Assemble(opening->answers);
          if (!opening->failed.ok()) return opening->opened(opening->failed);
          opening->opened(std::shared_ptr<const DividedAnswer>(std::move(opening->answer)));
        });
  }
}

// Each owner is asked for the selected rows that it has, in their order.
void DividedAnswer::SplitSelections(const v1::GetAggregateRequest& request) {
  v1::GetAggregateRequest common = request;
  common.clear_selections();
  common.clear_name();
  common.set_encoding("coo.raw");
  const size_t parts = result_->manifest.parts.size();
  requests_.assign(parts, common);
  for (const v1::IndexSelection& selection : request.selections()) {
    const size_t tensor = TensorNamed(*result_, selection.tensor());
    const auto rows = SelectedRows(selection, result_->result_specs[tensor]);
    if (!rows.ok()) continue;  // checked before
    std::vector<v1::IndexSelection*> own;
    for (v1::GetAggregateRequest& one : requests_) {
      own.push_back(one.add_selections());
      own.back()->set_tensor(selection.tensor());
      own.back()->set_index_type(selection.index_type());
    }
    std::vector<uint32_t>& part_of = part_of_row_[tensor];
    const size_t index_bytes = rows->empty() ? 0 : selection.indices().size() / rows->size();
    for (size_t i = 0; i < rows->size(); ++i) {
      const size_t part = PartOf(tensor, (*rows)[i]);
      part_of.push_back(static_cast<uint32_t>(part));
      own[part]->mutable_indices()->append(selection.indices(), i * index_bytes, index_bytes);
    }
  }
}

size_t DividedAnswer::PartOf(size_t tensor, uint64_t row) const {
  const std::vector<ResultPart>& parts = result_->manifest.parts;
  const RowPosition position{static_cast<uint32_t>(tensor), row};
  const auto after = std::ranges::upper_bound(
      parts, position, {}, [](const ResultPart& part) { return part.rows.first; });
  return after == parts.begin() ? 0 : static_cast<size_t>(after - parts.begin()) - 1;
}

absl::Status DividedAnswer::Assemble(const std::vector<v1::ReadResultResponse>& answers) {
  const std::vector<ResultPart>& parts = result_->manifest.parts;
  const int tensors = answers.front().header().tensors_size();
  for (size_t part = 0; part < parts.size(); ++part) {
    const v1::AggregateHeader& header = answers[part].header();
    bool is_same = header.tensors_size() == tensors;
    for (int i = 0; is_same && i < tensors; ++i) {
      is_same = header.tensors(i).name() == answers.front().header().tensors(i).name() &&
                header.tensors(i).encoding() == "coo.raw";
    }
    if (!is_same) return InconsistentPart(parts[part], "has other tensors than the round");
  }
  std::vector<uint64_t> part_offsets(parts.size());
  for (int i = 0; i < tensors; ++i) AddTensor(i, answers, part_offsets);
  return absl::OkStatus();
}

void DividedAnswer::AddTensor(int position, const std::vector<v1::ReadResultResponse>& answers,
                              std::vector<uint64_t>& part_offsets) {
  v1::TensorHeader& header = *header_.add_tensors();
  header = answers.front().header().tensors(position);
  const size_t tensor = TensorNamed(*result_, header.name());
  const uint64_t begin = bytes_;
  if (is_dense_) {
    AddDense(tensor, part_offsets);
    const auto selected = part_of_row_.find(tensor);
    if (selected != part_of_row_.end()) {
      header.set_dense_shape(0, static_cast<int64_t>(selected->second.size()));
      header.set_nnz(selected->second.empty() ? 0 : 1);
    }
    header.set_values_bytes(bytes_ - begin);
  } else {
    header.set_nnz(0);
    for (size_t part = 0; part < answers.size(); ++part) {
      const v1::TensorHeader& own = answers[part].header().tensors(position);
      header.set_nnz(header.nnz() + own.nnz());
      AddSegment(part, part_offsets[part], own.indices_bytes());
    }
    header.set_indices_bytes(bytes_ - begin);
    for (size_t part = 0; part < answers.size(); ++part) {
      const v1::TensorHeader& own = answers[part].header().tensors(position);
      AddSegment(part, part_offsets[part] + own.indices_bytes(), own.values_bytes());
    }
    header.set_values_bytes(bytes_ - begin - header.indices_bytes());
  }
  for (size_t part = 0; part < answers.size(); ++part) {
    const v1::TensorHeader& own = answers[part].header().tensors(position);
    part_offsets[part] += own.indices_bytes() + own.values_bytes();
  }
}

// A dense answer of an owner has all rows; those that it does not own are zeros.
void DividedAnswer::AddDense(size_t tensor, const std::vector<uint64_t>& part_offsets) {
  const TensorLayout& layout = result_->tensors[tensor].layout;
  const std::vector<ResultPart>& parts = result_->manifest.parts;
  const auto selected = part_of_row_.find(tensor);
  if (selected == part_of_row_.end()) {
    for (size_t part = 0; part < parts.size(); ++part) {
      const auto [first, end] = RowsOf(parts[part].rows, tensor, layout.num_rows);
      AddSegment(part, part_offsets[part] + first * layout.row_bytes(),
                 (end - first) * layout.row_bytes());
    }
    return;
  }
  std::vector<uint64_t> next = part_offsets;
  for (const uint32_t part : selected->second) {
    AddSegment(part, next[part], layout.row_bytes());
    next[part] += layout.row_bytes();
  }
}

void DividedAnswer::AddSegment(size_t part, uint64_t part_offset, uint64_t bytes) {
  if (bytes == 0) return;
  Segment* last = segments_.empty() ? nullptr : &segments_.back();
  if (last != nullptr && last->part == part && last->part_offset + last->bytes == part_offset) {
    last->bytes += bytes;
  } else {
    segments_.push_back({bytes_, part, part_offset, bytes});
  }
  bytes_ += bytes;
}

}  // namespace sparseagg
