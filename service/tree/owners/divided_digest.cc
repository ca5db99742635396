#include "service/tree/owners/divided_digest.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "service/engine/result/part_reader.h"
#include "service/rpc/result/divided_answer.h"
#include "service/store/checksums/array_sum.h"
#include "service/store/checksums/digest.h"

namespace sparseagg {
namespace {

constexpr size_t kPieceBytes = size_t{2} << 20;

using Answer = std::shared_ptr<const DividedAnswer>;

absl::StatusOr<Answer> Open(const std::shared_ptr<const PublishedResult>& result) {
  std::promise<absl::StatusOr<Answer>> opened;
  DividedAnswer::Open(result, v1::GetAggregateRequest(), ~uint64_t{0},
                      [&](absl::StatusOr<Answer> answer) { opened.set_value(std::move(answer)); });
  return opened.get_future().get();
}

// The bytes of an answer in order: while a piece is hashed, the next one is read.
class Pieces {
 public:
  Pieces(Answer answer, const std::function<bool()>& cancelled)
      : answer_(std::move(answer)), cancelled_(cancelled) {
    ReadNext();
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  // Calls f(bytes) for each piece of the next `bytes` bytes.
  template <class F>
  absl::Status Take(uint64_t bytes, const F& f) {
    while (bytes > 0) {
      if (rest_.empty()) SPARSEAGG_RETURN_IF_ERROR(Next());
      const std::string_view piece = rest_.substr(0, bytes);
      f(piece);
      rest_.remove_prefix(piece.size());
      bytes -= piece.size();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Next() {
    if (cancelled_()) return absl::CancelledError("reading the result was cancelled");
    SPARSEAGG_ASSIGN_OR_RETURN(current_, next_.get());
    rest_ = current_;
    ReadNext();
    return absl::OkStatus();
  }

  void ReadNext() {
    const size_t n = std::min<uint64_t>(kPieceBytes, answer_->bytes() - offset_);
    const auto read = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    next_ = read->get_future();
    const uint64_t offset = std::exchange(offset_, offset_ + n);
    if (n == 0) return;
    answer_->ReadAt(offset, n, [read](absl::StatusOr<std::string> bytes) {
      read->set_value(std::move(bytes));
    });
  }

  const Answer answer_;
  const std::function<bool()>& cancelled_;
  uint64_t offset_ = 0;  // of the piece after the next
  std::future<absl::StatusOr<std::string>> next_;
  std::string current_;
  std::string_view rest_;  // of current_
};

// Turns the indices of an answer into flattened rows, as the digest has them.
class Flattener {
 public:
  explicit Flattener(const TensorSpec& spec)
      : dims_(spec.dense_shape.begin(), spec.dense_shape.begin() + spec.sparse_dim) {}

  // Calls f(bytes) with the rows of the indices that are complete.
  template <class F>
  void Append(std::string_view bytes, const F& f) {
    if (dims_.size() == 1) return f(bytes);  // they are the same
    for (const char byte : bytes) {
      index_[filled_++] = byte;
      if (filled_ < sizeof(int64_t)) continue;
      filled_ = 0;
      int64_t index = 0;
      std::memcpy(&index, index_.data(), sizeof(index));
      row_ = row_ * static_cast<uint64_t>(dims_[dim_]) + static_cast<uint64_t>(index);
      if (++dim_ < dims_.size()) continue;
      f({reinterpret_cast<const char*>(&row_), sizeof(row_)});
      dim_ = 0;
      row_ = 0;
    }
  }

 private:
  const std::vector<int64_t> dims_;
  std::array<char, sizeof(int64_t)> index_;
  size_t filled_ = 0;
  size_t dim_ = 0;
  uint64_t row_ = 0;
};

// Calls f(bytes) for each piece of the array of rows of a tensor.
template <class F>
absl::Status TakeRows(const v1::TensorHeader& header, const TensorSpec& spec, Pieces& pieces,
                      const F& f) {
  if (spec.sparse_dim > 0) {
    Flattener flattener(spec);
    return pieces.Take(header.indices_bytes(),
                       [&](std::string_view piece) { flattener.Append(piece, f); });
  }
  constexpr uint64_t kOnlyRow = 0;
  if (header.nnz() > 0) f({reinterpret_cast<const char*>(&kOnlyRow), sizeof(kOnlyRow)});
  return absl::OkStatus();
}

absl::Status AddTensor(const v1::TensorHeader& header, const TensorSpec& spec, bool is_durable,
                       Pieces& pieces, Sha256& digest) {
  if (is_durable) {
    const auto add = [&](std::string_view piece) { digest.Bytes(piece); };
    digest.U64(header.nnz());
    SPARSEAGG_RETURN_IF_ERROR(TakeRows(header, spec, pieces, add));
    digest.U64(header.values_bytes());
    return pieces.Take(header.values_bytes(), add);
  }
  ArraySummer summer;
  const auto add = [&](std::string_view piece) { summer.Append(piece); };
  SPARSEAGG_RETURN_IF_ERROR(TakeRows(header, spec, pieces, add));
  HashSum(summer.Finish(), digest);
  SPARSEAGG_RETURN_IF_ERROR(pieces.Take(header.values_bytes(), add));
  HashSum(summer.Finish(), digest);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PublishedResult>> MakeDivided(
    const RoundSpec& spec, std::vector<ResultPart> parts, std::shared_ptr<PartReader> reader) {
  auto result = std::make_shared<PublishedResult>();
  result->spec = spec;
  for (const TensorSpec& tensor : spec.tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(const ReduceSpec reduce, MakeReduceSpec(tensor));
    result->tensors.emplace_back().layout = ResultLayout(reduce);
    result->result_specs.push_back(ResultSpec(tensor));
  }
  result->manifest.parts = std::move(parts);
  result->parts = std::move(reader);
  return result;
}

absl::StatusOr<std::string> DigestOfDivided(const std::shared_ptr<const PublishedResult>& result,
                                            const std::function<bool()>& cancelled) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Answer answer, Open(result));
  Pieces pieces(answer, cancelled);
  const bool is_durable = result->spec.durability == Durability::kDurable;
  Sha256 digest;
  if (!is_durable) digest.String("xxh3");
  for (int i = 0; i < answer->header().tensors_size(); ++i) {
    SPARSEAGG_RETURN_IF_ERROR(AddTensor(answer->header().tensors(i), result->result_specs[i],
                                        is_durable, pieces, digest));
  }
  return digest.Finish();
}

}  // namespace sparseagg
