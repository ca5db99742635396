#include "client/encoded_update.h"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "proto/convert.h"
#include "sparse/status.h"

namespace sparseagg::client {
namespace {

// Half of a SHA-256: 32 characters, and no two updates of a round will ever share them.
constexpr size_t kIdBytes = 16;

IndexType IndexTypeFor(const TensorView& tensor) {
  const auto* begin = tensor.dense_shape.data();
  const bool small =
      std::all_of(begin, begin + tensor.sparse_dim, [](int64_t d) { return d <= INT32_MAX; });
  return small ? IndexType::kI32 : IndexType::kI64;
}

absl::Status AppendTensor(const TensorView& tensor, EncodedUpdate& out) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(SpecOf(tensor)));
  if (layout != tensor.entries.layout) {
    return MakeError(absl::StatusCode::kInvalidArgument, "SHAPE_MISMATCH",
                     absl::StrCat("tensor \"", tensor.name,
                                  "\": its entries have another layout than its shape says"));
  }
  EncodedHeader header;
  header.name = tensor.name;
  header.value_type = layout.value_type;
  header.dense_shape = tensor.dense_shape;
  header.sparse_dim = tensor.sparse_dim;
  header.index_type = IndexTypeFor(tensor);
  SPARSEAGG_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(""));
  std::string indices;
  std::string values;
  SPARSEAGG_RETURN_IF_ERROR(encoding->encode(tensor.entries, header, indices, values));
  out.headers.push_back(std::move(header));
  out.pieces.push_back(std::move(indices));
  out.pieces.push_back(std::move(values));
  return absl::OkStatus();
}

std::string ContentId(const EncodedUpdate& update) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  const auto add = [&](const std::string& bytes) {
    const uint64_t length = bytes.size();
    EVP_DigestUpdate(context.get(), &length, sizeof(length));
    EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  };
  const auto weight = std::bit_cast<uint32_t>(update.weight);
  EVP_DigestUpdate(context.get(), &weight, sizeof(weight));
  for (const EncodedHeader& header : update.headers) add(ToProto(header).SerializeAsString());
  for (const std::string& piece : update.pieces) add(piece);
  unsigned char digest[EVP_MAX_MD_SIZE];
  EVP_DigestFinal_ex(context.get(), digest, nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), kIdBytes});
}

void FillHeader(const EncodedUpdate& update, v1::UpdateHeader* header) {
  header->set_round(update.round);
  header->set_contributor(update.contributor);
  header->set_update_id(update.update_id);
  header->set_weight(update.weight);
}

}  // namespace

uint64_t EncodedUpdate::total_bytes() const {
  uint64_t bytes = 0;
  for (const std::string& piece : pieces) bytes += piece.size();
  return bytes;
}

std::string EncodedUpdate::Bytes(uint64_t offset, uint64_t n) const {
  std::string out;
  for (const std::string& piece : pieces) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const uint64_t part = std::min<uint64_t>(n, piece.size() - offset);
    out.append(piece, offset, part);
    offset = 0;
    n -= part;
    if (n == 0) break;
  }
  return out;
}

absl::StatusOr<EncodedUpdate> Encode(const std::string& round, const Update& update) {
  EncodedUpdate encoded{round, update.contributor, update.update_id, update.weight, {}, {}};
  for (const TensorView& tensor : update.tensors) {
    SPARSEAGG_RETURN_IF_ERROR(AppendTensor(tensor, encoded));
  }
  if (encoded.update_id.empty()) encoded.update_id = ContentId(encoded);
  return encoded;
}

absl::StatusOr<std::string> ContentUpdateId(const Update& update) {
  Update unnamed = update;
  unnamed.update_id.clear();
  SPARSEAGG_ASSIGN_OR_RETURN(const EncodedUpdate encoded, Encode("", unnamed));
  return encoded.update_id;
}

v1::SubmitUpdateRequest ToRequest(EncodedUpdate update) {
  v1::SubmitUpdateRequest request;
  FillHeader(update, request.mutable_header());
  for (size_t i = 0; i < update.headers.size(); ++i) {
    v1::Tensor* tensor = request.add_tensors();
    *tensor->mutable_header() = ToProto(update.headers[i]);
    tensor->set_indices(std::move(update.pieces[2 * i]));
    tensor->set_values(std::move(update.pieces[2 * i + 1]));
  }
  return request;
}

v1::BeginUpdate ToBegin(const EncodedUpdate& update) {
  v1::BeginUpdate begin;
  FillHeader(update, begin.mutable_header());
  for (const EncodedHeader& header : update.headers) *begin.add_tensors() = ToProto(header);
  return begin;
}

}  // namespace sparseagg::client
