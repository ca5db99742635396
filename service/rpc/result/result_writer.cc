#include "service/rpc/result/result_writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/chunk_head.h"
#include "proto/convert.h"
#include "service/rpc/result/selection.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/round_proto.h"
#include "sparse/encoding.h"

namespace sparseagg {
namespace {

constexpr char kPackedName[] = "coo.packed";

absl::Status Invalid(std::string_view reason, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

// The positions in the round's specification of the tensors that the request names, in the order of
// the answer.
absl::StatusOr<std::vector<size_t>> ChooseTensors(const PublishedResult& result,
                                                  const v1::GetAggregateRequest& request) {
  std::vector<size_t> chosen;
  if (request.tensors().empty()) {
    for (size_t i = 0; i < result.tensors.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  std::map<std::string_view, size_t> positions;
  for (size_t i = 0; i < result.result_specs.size(); ++i)
    positions[result.result_specs[i].name] = i;
  std::set<size_t> seen;
  for (const std::string& name : request.tensors()) {
    const auto it = positions.find(name);
    if (it == positions.end()) {
      return Invalid("UNKNOWN_TENSOR",
                     absl::StrCat("tensor \"", name, "\" is not in the round, which has ",
                                  result.tensors.size(), " tensors; GetRound lists them"));
    }
    if (!seen.insert(it->second).second) {
      return Invalid("DUPLICATE_TENSOR", absl::StrCat("tensor \"", name, "\" is requested twice"));
    }
    chosen.push_back(it->second);
  }
  return chosen;
}

absl::StatusOr<std::map<std::string_view, const v1::IndexSelection*>> SelectionsByTensor(
    const PublishedResult& result, const v1::GetAggregateRequest& request,
    const std::vector<size_t>& chosen) {
  std::set<std::string_view> names;
  for (const size_t position : chosen) names.insert(result.result_specs[position].name);
  std::map<std::string_view, const v1::IndexSelection*> selections;
  for (const v1::IndexSelection& selection : request.selections()) {
    if (!names.contains(selection.tensor())) {
      return Invalid("UNKNOWN_TENSOR", absl::StrCat("the selection's tensor \"", selection.tensor(),
                                                    "\" is not in the answer"));
    }
    if (!selections.emplace(selection.tensor(), &selection).second) {
      return Invalid("INVALID_SELECTION",
                     absl::StrCat("tensor \"", selection.tensor(), "\" has two selections"));
    }
  }
  return selections;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResultWriter>> ResultWriter::Make(
    std::shared_ptr<const PublishedResult> result, const v1::GetAggregateRequest& request,
    uint64_t dense_bytes_max) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(request.encoding()));
  if (!v1::ResultLayout_IsValid(request.layout())) {
    return Invalid("UNKNOWN_RESULT_LAYOUT",
                   absl::StrCat("layout ", static_cast<int>(request.layout()),
                                " is unknown to this version; use SPARSE or DENSE"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<size_t> chosen, ChooseTensors(*result, request));
  SPARSEAGG_ASSIGN_OR_RETURN(const auto selections, SelectionsByTensor(*result, request, chosen));

  std::unique_ptr<ResultWriter> writer(new ResultWriter);
  writer->result_ = std::move(result);
  writer->encoding_ = encoding->name;
  writer->dense_bytes_left_ = dense_bytes_max;
  writer->chunk_bytes_ = ChunkBytes(request.chunk_bytes());
  writer->header_.set_round(request.name());
  *writer->header_.mutable_manifest() = ToProto(writer->result_->manifest);
  for (const size_t position : chosen) {
    const auto it = selections.find(writer->result_->result_specs[position].name);
    SPARSEAGG_RETURN_IF_ERROR(writer->AddTensor(
        position, it == selections.end() ? nullptr : it->second, request.layout()));
  }
  return writer;
}

absl::Status ResultWriter::AddTensor(size_t position, const v1::IndexSelection* selection,
                                     v1::ResultLayout layout) {
  const TensorSpec& spec = result_->result_specs[position];
  std::vector<uint64_t> rows;
  if (selection != nullptr) {
    SPARSEAGG_ASSIGN_OR_RETURN(rows, SelectedRows(*selection, spec));
  }
  v1::TensorHeader& header = *header_.add_tensors();
  header.set_name(spec.name);
  header.set_encoding("coo.raw");
  header.set_value_type(ToProto(result_->tensors[position].layout.value_type));
  header.set_index_type(v1::INDEX_TYPE_I64);
  const std::vector<uint64_t>* selected = selection == nullptr ? nullptr : &rows;
  if (layout == v1::RESULT_LAYOUT_DENSE) {
    SPARSEAGG_RETURN_IF_ERROR(AddDense(position, selected, header));
  } else {
    AddSparse(position, selected, header);
  }
  header.set_indices_bytes(sources_[sources_.size() - 2]->bytes());
  header.set_values_bytes(sources_.back()->bytes());
  return absl::OkStatus();
}

// The indices of the entries at `positions` (null: of all), in the requested encoding if it can
// hold them.
std::unique_ptr<ByteSource> ResultWriter::Indices(size_t position,
                                                  const std::vector<uint64_t>* positions,
                                                  v1::TensorHeader& header) const {
  const TensorSpec& spec = result_->result_specs[position];
  const SparseTensor& tensor = result_->tensors[position];
  if (encoding_ == kPackedName && spec.sparse_dim > 0) {
    std::unique_ptr<ByteSource> packed;
    if (positions == nullptr) {
      packed = MakePackedIndices(tensor.indices);
    } else {
      HostVector<uint64_t> rows;
      rows.reserve(positions->size());
      for (const uint64_t at : *positions) rows.push_back(tensor.indices[at]);
      packed = MakePackedIndices(RowIds(std::move(rows)));
    }
    if (packed != nullptr) {
      header.set_encoding(kPackedName);
      return packed;
    }
  }
  std::vector<int64_t> dims(spec.dense_shape.begin(), spec.dense_shape.begin() + spec.sparse_dim);
  return positions == nullptr ? MakeIndices(tensor, std::move(dims))
                              : MakeIndices(tensor, std::move(dims), *positions);
}

void ResultWriter::AddSparse(size_t position, const std::vector<uint64_t>* rows,
                             v1::TensorHeader& header) {
  const TensorSpec& spec = result_->result_specs[position];
  const SparseTensor& tensor = result_->tensors[position];
  header.mutable_dense_shape()->Add(spec.dense_shape.begin(), spec.dense_shape.end());
  header.set_sparse_dim(spec.sparse_dim);
  if (rows == nullptr) {
    header.set_nnz(tensor.nnz());
    sources_.push_back(Indices(position, nullptr, header));
    sources_.push_back(MakeValues(tensor));
    return;
  }
  std::vector<uint64_t> positions = FindRows(tensor, *rows);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  if (!positions.empty() && positions.back() == kAbsentRow) positions.pop_back();
  header.set_nnz(positions.size());
  sources_.push_back(Indices(position, &positions, header));
  sources_.push_back(MakeValues(tensor, std::move(positions)));
}

absl::Status ResultWriter::AddDense(size_t position, const std::vector<uint64_t>* rows,
                                    v1::TensorHeader& header) {
  const TensorSpec& spec = result_->result_specs[position];
  const SparseTensor& tensor = result_->tensors[position];
  const uint64_t num_rows = rows == nullptr ? tensor.layout.num_rows : rows->size();
  if (num_rows > dense_bytes_left_ / tensor.layout.row_bytes()) {
    return Invalid(
        "RESULT_TOO_LARGE",
        absl::StrCat("tensor \"", spec.name, "\": ", num_rows, " dense rows of ",
                     tensor.layout.row_bytes(),
                     " bytes exceed what is left of dense-result-bytes-max (", dense_bytes_left_,
                     " bytes); ask for the sparse layout or for a selection"));
  }
  dense_bytes_left_ -= num_rows * tensor.layout.row_bytes();
  if (rows != nullptr) header.add_dense_shape(static_cast<int64_t>(num_rows));
  const size_t first_dim = rows == nullptr ? 0 : spec.sparse_dim;
  for (size_t d = first_dim; d < spec.dense_shape.size(); ++d)
    header.add_dense_shape(spec.dense_shape[d]);
  header.set_nnz(num_rows == 0 ? 0 : 1);
  sources_.push_back(MakeIndices(tensor, {}, {}));  // no indices
  sources_.push_back(rows == nullptr ? MakeDenseValues(tensor)
                                     : MakeValues(tensor, FindRows(tensor, *rows)));
  return absl::OkStatus();
}

// The next chunk, as parts of sources.
std::vector<ResultWriter::Part> ResultWriter::TakeParts() {
  std::vector<Part> parts;
  uint64_t left = chunk_bytes_;
  for (; source_ < sources_.size(); ++source_, source_offset_ = 0) {
    const ByteSource& source = *sources_[source_];
    const uint64_t n = std::min(source.bytes() - source_offset_, left);
    if (n > 0) parts.push_back({&source, source_offset_, n});
    left -= n;
    source_offset_ += n;
    if (source_offset_ < source.bytes()) break;  // the chunk is full
  }
  return parts;
}

grpc::Slice ResultWriter::View(const Part& part) const {
  using Result = std::shared_ptr<const PublishedResult>;
  const auto release = [](void* result) { delete static_cast<Result*>(result); };
  return {const_cast<char*>(part.source->InMemory() + part.offset), part.bytes, release,
          new Result(result_)};
}

bool ResultWriter::NextChunk(int chunk_field, grpc::ByteBuffer& message) {
  const std::vector<Part> parts = TakeParts();
  if (parts.empty()) return false;
  std::vector<grpc::Slice> slices;
  AppendChunk(chunk_field, parts, slices);
  message = grpc::ByteBuffer(slices.data(), slices.size());
  return true;
}

absl::Status ResultWriter::ReadAt(uint64_t offset, uint32_t bytes, grpc::ByteBuffer& message) {
  v1::ReadResultResponse rest;
  uint64_t total = 0;
  for (const auto& source : sources_) total += source->bytes();
  if (offset > total) {
    return Invalid("OFFSET_OUT_OF_RANGE",
                   absl::StrCat("offset ", offset, " is behind the end of the answer, which has ",
                                total, " bytes"));
  }
  if (offset == 0) *rest.mutable_header() = header_;
  rest.set_total_bytes(total);
  chunk_bytes_ = ChunkBytes(bytes);
  offset_ = offset;
  source_offset_ = offset;
  for (; source_ < sources_.size() && source_offset_ >= sources_[source_]->bytes(); ++source_) {
    source_offset_ -= sources_[source_]->bytes();
  }
  std::vector<grpc::Slice> slices = {grpc::Slice(rest.SerializeAsString())};
  AppendChunk(v1::ReadResultResponse::kChunkFieldNumber, TakeParts(), slices);
  message = grpc::ByteBuffer(slices.data(), slices.size());
  return absl::OkStatus();
}

// Appends the chunk that `parts` are, as a field of the message that `slices` are.
void ResultWriter::AppendChunk(int chunk_field, const std::vector<Part>& parts,
                               std::vector<grpc::Slice>& slices) {
  v1::AggregateChunk chunk;
  chunk.set_offset(offset_);
  size_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes;
  offset_ += bytes;
  slices.emplace_back(ChunkHead(chunk_field, chunk, v1::AggregateChunk::kDataFieldNumber, bytes));
  for (auto part = parts.begin(); part != parts.end();) {
    if (IsSentFromMemory(*part)) {
      slices.push_back(View(*part++));
      continue;
    }
    const auto end = std::find_if(part, parts.end(), IsSentFromMemory);
    size_t made_bytes = 0;
    for (auto at = part; at != end; ++at) made_bytes += at->bytes;
    grpc::Slice made(made_bytes);
    auto* out = reinterpret_cast<char*>(const_cast<uint8_t*>(made.begin()));
    for (; part != end; out += part->bytes, ++part) {
      part->source->Read(part->offset, part->bytes, out);
    }
    slices.push_back(std::move(made));
  }
}

// Smaller parts are copied together, because each slice is a separate buffer for the kernel.
bool ResultWriter::IsSentFromMemory(const Part& part) {
  constexpr size_t kWorthABuffer = 16 << 10;
  return part.bytes >= kWorthABuffer && part.source->InMemory() != nullptr;
}

template <typename Response>
bool ResultWriter::Next(grpc::ByteBuffer& message) {
  if (header_sent_) return NextChunk(Response::kChunkFieldNumber, message);
  header_sent_ = true;
  Response header;
  *header.mutable_header() = header_;
  message = ToBytes(header);
  return true;
}

template bool ResultWriter::Next<v1::GetAggregateResponse>(grpc::ByteBuffer& message);
template bool ResultWriter::Next<v1::ReduceResponse>(grpc::ByteBuffer& message);

}  // namespace sparseagg
