#include "client/cli/partial_head.h"

#include <cstring>
#include <type_traits>

#include "base/status.h"
#include "sparse/types.h"

namespace sparseagg::cli {
namespace {

constexpr std::string_view kMagic = "spagpart";
constexpr size_t kDigestBytes = 32;
constexpr size_t kWeightDigitBytes = 5;
constexpr size_t kCoveredRestBytes = 4 + kDigestBytes;  // weight and digest of an update

absl::Status Invalid(const char* what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL",
                   std::string("the bytes are no partial aggregate: ") + what);
}

// Takes pieces from the front of the bytes. After the first that is missing, ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  std::string_view Take(size_t n) {
    ok_ = ok_ && n <= bytes_.size();
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  template <class Number>
  Number Read() {
    Number number = 0;
    const std::string_view taken = Take(sizeof(number));
    if (ok_) std::memcpy(&number, taken.data(), sizeof(number));
    return number;
  }
  template <class Length>
  std::string Text() {
    return std::string(Take(Read<Length>()));
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

PartialHead::Tensor ReadTensor(Reader& reader) {
  PartialHead::Tensor tensor;
  tensor.name = reader.Text<uint16_t>();
  tensor.op = reader.Text<uint8_t>();
  tensor.value_type = ValueTypeName(static_cast<ValueType>(reader.Read<uint8_t>()));
  reader.Read<uint8_t>();  // overflow
  const auto rank = reader.Read<uint8_t>();
  tensor.sparse_dim = reader.Read<uint8_t>();
  for (int i = 0; i < rank && reader.ok(); ++i) {
    tensor.dense_shape.push_back(reader.Read<int64_t>());
  }
  tensor.entries = reader.Read<uint64_t>();
  tensor.slices = reader.Read<uint64_t>();
  return tensor;
}

}  // namespace

absl::StatusOr<PartialHead> ReadPartialHead(std::string_view bytes) {
  Reader reader(bytes);
  if (reader.Take(kMagic.size()) != kMagic) return Invalid("they begin otherwise");
  PartialHead head;
  head.version = reader.Read<uint32_t>();
  if (head.version != 1) return Invalid("their version is not 1");
  const auto tensors = reader.Read<uint32_t>();
  head.contributors = reader.Read<uint64_t>();
  head.named = reader.Read<uint8_t>() == 1;
  reader.Take(kWeightDigitBytes * reader.Read<uint8_t>());
  for (uint32_t i = 0; i < tensors && reader.ok(); ++i) head.tensors.push_back(ReadTensor(reader));
  for (uint64_t i = 0; head.named && i < head.contributors && reader.ok(); ++i) {
    head.covered.push_back(reader.Text<uint8_t>());
    reader.Text<uint8_t>();  // update_id
    reader.Take(kCoveredRestBytes);
  }
  if (!reader.ok() || bytes.size() < kDigestBytes) return Invalid("they end early");
  head.digest = std::string(bytes.substr(bytes.size() - kDigestBytes));
  return head;
}

}  // namespace sparseagg::cli
