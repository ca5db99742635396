#include "client/wire/encoded_update.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/client.h"
#include "proto/convert.h"
#include "sparse/encode.h"

namespace sparseagg::client {
namespace {

// Half of a SHA-256, in 32 characters, makes collisions within a round negligible.
constexpr size_t kIdBytes = 16;

IndexType IndexTypeFor(const TensorView& tensor) {
  const auto* begin = tensor.dense_shape.data();
  const bool small =
      std::all_of(begin, begin + tensor.sparse_dim, [](int64_t d) { return d <= INT32_MAX; });
  return small ? IndexType::kI32 : IndexType::kI64;
}

absl::StatusOr<TensorLayout> LayoutOf(const TensorView& tensor) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(SpecOf(tensor)));
  if (layout != tensor.entries.layout) {
    return MakeError(absl::StatusCode::kInvalidArgument, "SHAPE_MISMATCH",
                     absl::StrCat("tensor \"", tensor.name,
                                  "\": its entries have another layout than its shape says"));
  }
  return layout;
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void Add(const void* bytes, size_t size) { EVP_DigestUpdate(context_.get(), bytes, size); }
  void AddString(std::string_view text) {
    const uint64_t length = text.size();
    Add(&length, sizeof(length));
    Add(text.data(), text.size());
  }
  std::string Finish() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    return {reinterpret_cast<const char*>(digest), size};
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// The seed of stochastic rounding: the same for a retry, different for another contributor
// (docs/wire_format.md).
uint64_t RoundingSeed(const EncodedUpdate& update, const std::string& tensor) {
  Sha256 digest;
  const std::string text = update.round + '\0' + update.contributor + '\0' + tensor;
  digest.Add(text.data(), text.size());
  uint64_t seed;
  std::memcpy(&seed, digest.Finish().data(), sizeof(seed));
  return seed;
}

absl::Status AppendTensor(const TensorView& tensor, EncodeOptions options, EncodedUpdate& out) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, LayoutOf(tensor));
  EncodedHeader header;
  header.name = tensor.name;
  header.value_type = layout.value_type;
  header.dense_shape = tensor.dense_shape;
  header.sparse_dim = tensor.sparse_dim;
  header.index_type = IndexTypeFor(tensor);
  options.rounding_seed = RoundingSeed(out, tensor.name);
  std::string indices;
  std::string values;
  SPARSEAGG_RETURN_IF_ERROR(EncodeTensor(tensor.entries, options, header, indices, values));
  out.headers.push_back(std::move(header));
  out.pieces.push_back(std::move(indices));
  out.pieces.push_back(std::move(values));
  return absl::OkStatus();
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

std::vector<TensorEncoding> EncodedUpdate::encodings() const {
  std::vector<TensorEncoding> list;
  list.reserve(headers.size());
  for (const EncodedHeader& header : headers) {
    list.push_back({header.name, header.encoding,
                    header.values_encoding.empty() ? "raw" : header.values_encoding, header.nnz,
                    header.indices_bytes + header.values_bytes});
  }
  return list;
}

absl::StatusOr<EncodedUpdate> Encode(const std::string& round, const Update& update,
                                     bool server_knows_packed) {
  EncodedUpdate encoded{round, update.contributor, update.update_id, update.weight, {}, {}};
  EncodeOptions options{.encoding = update.encoding, .values = update.values};
  if (options.encoding == "auto" && !server_knows_packed) options = {.encoding = "coo.raw"};
  for (const TensorView& tensor : update.tensors) {
    SPARSEAGG_RETURN_IF_ERROR(AppendTensor(tensor, options, encoded));
  }
  if (encoded.update_id.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(encoded.update_id, ContentUpdateId(update));
  }
  return encoded;
}

// The digest of the caller's data, not of the encoded bytes, which also depend on the server.
absl::StatusOr<std::string> ContentUpdateId(const Update& update) {
  Sha256 digest;
  digest.Add(&update.weight, sizeof(update.weight));
  digest.AddString(update.encoding);
  digest.AddString(update.values);
  for (const TensorView& tensor : update.tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, LayoutOf(tensor));
    const CooView& entries = tensor.entries;
    digest.AddString(ToProto(SpecOf(tensor)).SerializeAsString());
    digest.Add(&entries.nnz, sizeof(entries.nnz));
    digest.Add(entries.rows.wide(), entries.nnz * sizeof(uint64_t));
    digest.Add(entries.values, entries.nnz * layout.row_bytes());
  }
  return absl::BytesToHexString(digest.Finish().substr(0, kIdBytes));
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
