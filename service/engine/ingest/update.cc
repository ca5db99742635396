#include "service/engine/ingest/update.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/store/checksums/digest.h"
#include "sparse/byte_chain.h"

namespace sparseagg {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

absl::Status Invalid(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

// Sizes come from clients. A sum or product beyond 64 bits saturates, above every limit.
uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a > kMax - b ? kMax : a + b; }
uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  return b != 0 && a > kMax / b ? kMax : a * b;
}

absl::Status CheckUpdateBytes(uint64_t bytes, const Limits& limits) {
  if (bytes <= limits.update_bytes_max) return absl::OkStatus();
  return Invalid("UPDATE_TOO_LARGE",
                 absl::StrCat("the update has ", bytes,
                              " bytes, more than update-bytes-max = ", limits.update_bytes_max));
}

absl::Status Missing(std::string_view quoted_name) {
  return Invalid("MISSING_TENSOR",
                 absl::StrCat("tensor ", std::string(quoted_name),
                              " is not in the update; send it with nnz 0 if it has no entries"));
}

// Returns the position in the update of each tensor of the specification.
absl::StatusOr<std::vector<size_t>> MatchTensors(const RoundSpec& spec,
                                                 std::span<const EncodedHeader> headers) {
  std::map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < headers.size(); ++i) {
    if (!by_name.emplace(headers[i].name, i).second) {
      return Invalid("DUPLICATE_TENSOR", absl::StrCat("tensor ", Quoted(headers[i].name),
                                                      " occurs twice in the update"));
    }
  }
  std::vector<size_t> order;
  order.reserve(std::min(headers.size(), spec.tensors.size()));
  std::string missing;
  for (const TensorSpec& tensor : spec.tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) {
      if (missing.empty()) missing = Quoted(tensor.name);
      // Stop here, whatever else is wrong: an update of few tensors must not cost a look-up for
      // each tensor of the round.
      if (headers.size() < spec.tensors.size()) return Missing(missing);
      continue;
    }
    order.push_back(found->second);
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    return Invalid("UNKNOWN_TENSOR", absl::StrCat("tensor ", Quoted(by_name.begin()->first),
                                                  " is not one of the round's tensors"));
  }
  if (!missing.empty()) return Missing(missing);
  return order;
}

// Collects the bytes that Sha256 would hash.
class Hashed : public DigestInput<Hashed> {
 public:
  Hashed& Bytes(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

template <class Digest>
void HashHeader(const EncodedHeader& header, DigestInput<Digest>& digest) {
  const auto encoding = FindEncoding(header.encoding);
  std::string coding(encoding.ok() ? (*encoding)->name : header.encoding);
  if (!header.values_encoding.empty()) absl::StrAppend(&coding, "/", header.values_encoding);
  digest.String(header.name).String(coding);
  digest.U32(static_cast<uint32_t>(header.value_type));
  digest.U32(static_cast<uint32_t>(header.index_type));
  digest.U32(header.sparse_dim).U64(header.dense_shape.size());
  for (const int64_t dimension : header.dense_shape) digest.U64(static_cast<uint64_t>(dimension));
  digest.U64(header.nnz);
}

}  // namespace

absl::StatusOr<UpdateLayout> MakeBodyLayout(const RoundSpec& spec,
                                            std::span<const EncodedHeader> headers,
                                            const Limits& limits) {
  if (!IsPartialBody(headers)) return MakeUpdateLayout(spec, headers, limits);
  const EncodedHeader& header = headers.front();
  if (!header.name.empty() || !header.dense_shape.empty() || !header.values_encoding.empty() ||
      header.value_type != ValueType::kF32 || header.index_type != IndexType::kI64 ||
      header.sparse_dim != 0 || header.nnz != 0 || header.indices_bytes != 0) {
    return Invalid("INVALID_PARTIAL",
                   "the header of a partial aggregate has only an encoding, the value type f32 "
                   "and values_bytes");
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckUpdateBytes(header.values_bytes, limits));
  return UpdateLayout{
      .order = {0}, .payload_bytes = header.values_bytes, .staged_bytes = sizeof(RoundPartial)};
}

absl::StatusOr<UpdateLayout> MakeUpdateLayout(const RoundSpec& spec,
                                              std::span<const EncodedHeader> headers,
                                              const Limits& limits) {
  if (IsPartialBody(headers)) {
    return Invalid("PARTIAL_NOT_ALLOWED", "a partial aggregate can be sent to a round only");
  }
  UpdateLayout layout;
  SPARSEAGG_ASSIGN_OR_RETURN(layout.order, MatchTensors(spec, headers));
  // An empty update takes memory, too.
  layout.staged_bytes = layout.order.size() * sizeof(StagedUpdate);
  for (size_t i = 0; i < layout.order.size(); ++i) {
    const TensorSpec& tensor = spec.tensors[i];
    const EncodedHeader& header = headers[layout.order[i]];
    SPARSEAGG_RETURN_IF_ERROR(InspectTensor(header, tensor));
    if (header.nnz > limits.update_nnz_max) {
      return Invalid("UPDATE_TOO_LARGE",
                     absl::StrCat("tensor ", Quoted(header.name), ": nnz ", header.nnz,
                                  " is more than update-nnz-max = ", limits.update_nnz_max));
    }
    SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout tensor_layout, MakeLayout(tensor));
    layout.payload_bytes = SaturatingAdd(layout.payload_bytes,
                                         SaturatingAdd(header.indices_bytes, header.values_bytes));
    const uint64_t entry_bytes = sizeof(uint64_t) + tensor_layout.row_bytes();
    layout.staged_bytes =
        SaturatingAdd(layout.staged_bytes, SaturatingMultiply(header.nnz, entry_bytes));
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckUpdateBytes(layout.payload_bytes, limits));
  return layout;
}

std::vector<EncodedHeader> HeadersOf(std::span<const EncodedTensor> tensors) {
  std::vector<EncodedHeader> headers;
  headers.reserve(tensors.size());
  for (const EncodedTensor& tensor : tensors) headers.push_back(tensor.header);
  return headers;
}

SplitPayload::SplitPayload(std::span<const EncodedHeader> headers,
                           std::span<const std::string_view> bytes) {
  // Each cut adds at most one piece, so the vector never reallocates while chains point into it.
  pieces_.reserve(bytes.size() + 2 * headers.size());
  size_t next = 0;
  std::string_view rest;
  const auto cut = [&](uint64_t length) {
    const size_t begin = pieces_.size();
    while (length > 0) {
      if (rest.empty()) {
        rest = bytes[next++];
        continue;
      }
      pieces_.push_back(rest.substr(0, length));
      rest.remove_prefix(pieces_.back().size());
      length -= pieces_.back().size();
    }
    return ByteChain(pieces_.data() + begin, pieces_.size() - begin);
  };
  tensors_.reserve(headers.size());
  for (const EncodedHeader& header : headers) {
    const ByteChain indices = cut(header.indices_bytes);
    tensors_.push_back({header, indices, cut(header.values_bytes)});
  }
}

absl::Status CheckPayloadSizes(std::span<const EncodedTensor> tensors) {
  for (const EncodedTensor& tensor : tensors) {
    const EncodedHeader& header = tensor.header;
    const uint64_t indices_bytes = TotalBytes(tensor.indices);
    const uint64_t values_bytes = TotalBytes(tensor.values);
    if (indices_bytes == header.indices_bytes && values_bytes == header.values_bytes) continue;
    return Invalid(
        "SIZE_MISMATCH",
        absl::StrCat("tensor ", Quoted(header.name), ": the header states ", header.indices_bytes,
                     " bytes of indices and ", header.values_bytes, " of values, the payload has ",
                     indices_bytes, " and ", values_bytes));
  }
  return absl::OkStatus();
}

std::vector<TensorSums> SumsOf(std::span<const EncodedTensor> tensors) {
  std::vector<TensorSums> sums(tensors.size());
  ArraySummer summer;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (const std::string_view piece : tensors[i].indices) summer.Append(piece);
    sums[i].indices = summer.Finish();
    for (const std::string_view piece : tensors[i].values) summer.Append(piece);
    sums[i].values = summer.Finish();
  }
  return sums;
}

std::string UpdateDigest(float weight, std::span<const EncodedTensor> tensors,
                         std::span<const size_t> order) {
  Sha256 digest;
  digest.U32(std::bit_cast<uint32_t>(weight)).U64(order.size());
  for (const size_t position : order) {
    const EncodedTensor& tensor = tensors[position];
    HashHeader(tensor.header, digest);
    digest.U64(tensor.header.indices_bytes);
    for (const std::string_view piece : tensor.indices) digest.Bytes(piece);
    digest.U64(tensor.header.values_bytes);
    for (const std::string_view piece : tensor.values) digest.Bytes(piece);
  }
  return digest.Finish();
}

std::string QuickUpdateDigest(float weight, std::span<const EncodedTensor> tensors,
                              std::span<const TensorSums> sums, std::span<const size_t> order) {
  Hashed hashed;
  hashed.U32(std::bit_cast<uint32_t>(weight)).U64(order.size());
  for (const size_t position : order) {
    HashHeader(tensors[position].header, hashed);
    HashSum(sums[position].indices, hashed);
    HashSum(sums[position].values, hashed);
  }
  return QuickDigest(hashed.bytes());
}

}  // namespace sparseagg
