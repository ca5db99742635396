#include "service/engine/result/result_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

absl::Status Mismatch(const ReduceSpec& spec, uint64_t row, std::string_view what) {
  return MakeError(
      absl::StatusCode::kDataLoss, "RESULT_MISMATCH",
      absl::StrCat("tensor ", Quoted(spec.name), ", row ", row, ": ", std::string(what)));
}

bool HasColumnsOfItsInput(const ReduceSpec& spec) {
  return ResultLayout(spec).row_width == spec.layout.row_width;
}

bool HasRow(const ResultBlock& block, const SparseTensor& result, uint64_t row) {
  const uint64_t at = result.indices.LowerBound(row);
  return at - block.first_entry < block.entries && result.indices[at] == row;
}

absl::Status MissingRow(const ReduceSpec& spec, uint64_t row) {
  return Mismatch(spec, row, "an update has this row, but the result does not");
}

absl::Status CutTensor(size_t tensor, const ReduceSpec& spec, const SparseTensor& result,
                       const BackendInfo& backend, uint64_t bytes_max,
                       std::vector<ResultBlock>& blocks) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Plan plan, MakePlan(spec, Workload{}, backend));
  const uint64_t row_bytes = std::max<uint64_t>(1, plan.cost.entry_bytes);
  const uint32_t width = spec.layout.row_width;
  const uint64_t rows_at_once = std::max<uint64_t>(1, bytes_max / row_bytes);
  uint32_t columns_at_once = width;
  if (row_bytes > bytes_max && HasColumnsOfItsInput(spec)) {
    const uint64_t column_bytes = std::max<uint64_t>(1, row_bytes / width);
    columns_at_once = std::clamp<uint64_t>(bytes_max / column_bytes, 1, width);
  }
  const uint64_t rows = std::max<uint64_t>(1, result.nnz());  // an empty result has one block, too
  for (uint64_t first = 0; first < rows; first += rows_at_once) {
    ResultBlock block{.tensor = tensor, .first_entry = first};
    const uint64_t end = std::min(rows - first, rows_at_once) + first;
    block.entries = std::min(end, result.nnz()) - first;
    block.first_row = first == 0 ? 0 : result.indices[first];
    block.end_row = end == rows ? kNumRowsMax : result.indices[end];
    for (uint32_t column = 0; column < width; column += block.columns) {
      block.first_column = column;
      block.columns = std::min(width - column, columns_at_once);
      block.bytes =
          plan.cost.index_space_bytes() + (end - first) * (row_bytes / width) * block.columns;
      blocks.push_back(block);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<ResultBlock>>> CutIntoBlocks(
    std::span<const ReduceSpec> specs, std::span<const SparseTensor> tensors,
    const BackendInfo& backend, uint64_t bytes_max) {
  std::vector<ResultBlock> blocks;
  for (size_t i = 0; i < specs.size(); ++i) {
    SPARSEAGG_RETURN_IF_ERROR(CutTensor(i, specs[i], tensors[i], backend, bytes_max, blocks));
  }
  std::vector<std::vector<ResultBlock>> groups;
  uint64_t bytes = 0;
  for (const ResultBlock& block : blocks) {
    if (groups.empty() || bytes + block.bytes > bytes_max) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(block);
    bytes += block.bytes;
  }
  return groups;
}

ReduceSpec SpecOf(const ResultBlock& block, ReduceSpec spec) {
  spec.layout.row_width = block.columns;
  return spec;
}

absl::StatusOr<StagedUpdate> PartOf(const ResultBlock& block, const StagedUpdate& update,
                                    const ReduceSpec& spec, const SparseTensor& result,
                                    const Aggregator& aggregator) {
  const CooView all = update.entries.view();
  const auto belongs = [&](uint64_t row) { return row >= block.first_row && row < block.end_row; };
  const std::span<const uint64_t> rows(all.rows.wide(), all.nnz);
  uint64_t nnz = 0;
  for (const uint64_t row : rows) {
    if (!belongs(row)) continue;
    if (!HasRow(block, result, row)) return MissingRow(spec, row);
    ++nnz;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(StagedUpdate part, aggregator.Stage(nnz));
  part.order = update.order;
  const size_t value_bytes = SizeOf(spec.layout.value_type);
  const auto* source = static_cast<const std::byte*>(all.values) + block.first_column * value_bytes;
  auto* target = static_cast<std::byte*>(part.entries.values);
  uint64_t* row = part.entries.rows.wide();
  for (uint64_t e = 0; e < all.nnz; ++e) {
    if (!belongs(rows[e])) continue;
    *row++ = rows[e];
    std::memcpy(target, source + e * spec.layout.row_bytes(), block.columns * value_bytes);
    target += block.columns * value_bytes;
  }
  return part;
}

absl::StatusOr<Partial> PartOf(const ResultBlock& block, const Partial& partial,
                               const SparseTensor& result) {
  Partial part;
  part.spec = SpecOf(block, partial.spec);
  part.contributors = partial.contributors;
  part.total_weight = partial.total_weight;
  part.addends = partial.addends;
  part.lsb = partial.lsb;
  const uint32_t stride = SlotsPerRow(partial.spec);
  const uint32_t part_stride = SlotsPerRow(part.spec);
  const bool has_values = partial.spec.layout.row_width <= stride;
  const uint32_t first = has_values ? block.first_column : 0;
  const uint32_t end = has_values ? first + block.columns : 0;
  const uint32_t row_column = has_values ? partial.spec.layout.row_width : 0;
  const auto belongs = [&](uint64_t row) { return row >= block.first_row && row < block.end_row; };
  for (size_t i = 0; i < partial.rows.size(); ++i) {
    const uint64_t row = partial.rows[i];
    if (!belongs(row)) continue;
    if (!HasRow(block, result, row)) return MissingRow(partial.spec, row);
    part.rows.push_back(row);
    const Int128* slots = partial.slots.data() + i * stride;
    part.slots.insert(part.slots.end(), slots + first, slots + end);
    if (part_stride > end - first) part.slots.push_back(slots[row_column]);
  }
  for (SideEntry entry : partial.side) {
    if (!belongs(entry.row)) continue;
    if (has_values && entry.column < row_column) {
      if (entry.column < first || entry.column >= end) continue;
      entry.column -= first;
    } else {
      entry.column = end - first;
    }
    part.side.push_back(entry);
  }
  return part;
}

absl::Status CheckBlock(const ResultBlock& block, const ReduceSpec& spec, const SparseTensor& part,
                        const SparseTensor& result) {
  const TensorLayout layout = ResultLayout(spec);
  const size_t value_bytes = SizeOf(layout.value_type);
  const uint64_t first = HasColumnsOfItsInput(spec) ? block.first_column : 0;
  const uint64_t bytes = part.layout.row_bytes();
  for (uint64_t i = 0; i < block.entries; ++i) {
    const uint64_t row = result.indices[block.first_entry + i];
    if (i >= part.nnz() || part.indices[i] != row) {
      return Mismatch(spec, row, "the result has this row, but no update does");
    }
    const std::byte* published =
        result.values.data() + (block.first_entry + i) * layout.row_bytes() + first * value_bytes;
    if (std::memcmp(part.values.data() + i * bytes, published, bytes) != 0) {
      return Mismatch(spec, row, "computed again, its bits differ from those of the result");
    }
  }
  return absl::OkStatus();
}

}  // namespace sparseagg
