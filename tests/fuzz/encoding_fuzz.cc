// Every encoding: bytes that claim to be a tensor are refused or decoded, never written out of
// range, whatever their cut; what is encoded is decoded to the same entries.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/status.h"
#include "sparse/encoding.h"
#include "sparse/rows/narrow_rows.h"
#include "sparse/rows/packed_rows.h"
#include "sparse/validate.h"
#include "tests/fuzz/fuzz_input.h"

namespace sparseagg::fuzz {
namespace {

// Above what inputs hold, so that zeros come after them; more costs executions.
constexpr uint64_t kDecodedBytesMax = 16 << 10;

TensorSpec TakeSpec(FuzzInput& input) {
  TensorSpec spec;
  spec.name = "t";
  spec.value_type = kAllValueTypes[input.Below(std::size(kAllValueTypes))];
  const size_t rank = 1 + input.Below(4);
  for (size_t d = 0; d < rank; ++d) spec.dense_shape.push_back(1 + input.Take<uint16_t>() % 300);
  spec.sparse_dim = static_cast<uint32_t>(input.Below(rank + 1));
  return spec;
}

EncodedHeader HeaderFor(const TensorSpec& spec, const Encoding& encoding, FuzzInput& input) {
  EncodedHeader header;
  header.name = spec.name;
  header.encoding = encoding.name;
  header.value_type = spec.value_type;
  header.dense_shape = spec.dense_shape;
  header.sparse_dim = spec.sparse_dim;
  header.index_type = input.Below(2) == 0 ? IndexType::kI64 : IndexType::kI32;
  const std::vector<std::string_view> codings = AllValuesEncodings();
  const size_t coding = input.Below(2 * codings.size());
  if (coding < codings.size()) header.values_encoding = codings[coding];
  return header;
}

std::vector<std::string_view> Cut(std::string_view bytes, size_t piece) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < bytes.size(); at += piece) pieces.push_back(bytes.substr(at, piece));
  return pieces;
}

struct Entries {
  std::vector<uint64_t> rows;
  std::vector<std::byte> values;
  bool operator==(const Entries&) const = default;
};

absl::Status AppendIndices(TensorDecoder& decoder, std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces) {
    SPARSEAGG_RETURN_IF_ERROR(decoder.AppendIndices(piece));
  }
  return absl::OkStatus();
}

// As they arrive, piece by piece.
absl::Status DecodeArriving(const Encoding& encoding, const EncodedHeader& header,
                            const TensorSpec& spec, std::span<const std::string_view> indices,
                            std::span<const std::string_view> values, Entries& out) {
  const TensorLayout layout = MakeLayout(spec).value();
  out.rows.assign(header.nnz, ~uint64_t{0});
  out.values.assign(header.nnz * layout.row_bytes(), std::byte{0xA5});
  const auto decoder =
      encoding.decoder(header, spec, {layout, header.nnz, out.rows.data(), out.values.data()});
  SPARSEAGG_RETURN_IF_ERROR(AppendIndices(*decoder, indices));
  for (const std::string_view piece : values) {
    SPARSEAGG_RETURN_IF_ERROR(decoder->AppendValues(piece));
  }
  return absl::OkStatus();
}

// The rows kept as they came: checked as strictly, and the same ones.
void CheckPacked(const Encoding& encoding, const EncodedHeader& header, const TensorSpec& spec,
                 std::span<const std::string_view> indices, const absl::Status& expected,
                 const std::vector<uint64_t>& rows) {
  if (header.encoding != "coo.packed" || header.indices_bytes == 0) return;
  const TensorLayout layout = MakeLayout(spec).value();
  std::vector<char> bytes(header.indices_bytes + kBlockSlackBytes);
  const MutableCooView packed = {.layout = layout,
                                 .nnz = header.nnz,
                                 .rows = RowStorage(std::span(bytes.data(), header.indices_bytes))};
  const auto decoder = encoding.decoder(header, spec, packed);
  const absl::Status status = AppendIndices(*decoder, indices);
  // What is wrong with the values only, the rows do not know.
  Require(status == expected || (status.ok() && !expected.ok()),
          "rows that are kept as they came are judged otherwise");
  if (!status.ok() || !expected.ok()) return;
  Require(decoder->order() == OrderOf(rows.data(), rows.size()), "another order of the rows");
  const PackedRows blocks(packed.view());
  std::vector<uint64_t> unpacked(rows.size());
  blocks.UnpackAll(unpacked.data());
  Require(unpacked == rows, "other rows come out of packed ones");
  for (uint64_t b = 0; b < blocks.blocks(); ++b) {
    const PackedRows::Block block = blocks.block(b);
    PackedRows::BitsBuffer buffer;
    const auto bits = PackedRows::BitsOf(block, buffer);
    if (!bits.has_value()) continue;
    auto next = rows.begin() + static_cast<std::ptrdiff_t>(block.begin);
    for (uint64_t k = 0; k <= bits->last - bits->first; ++k) {
      if ((bits->bytes[k / 8] >> (k % 8) & 1) == 0) continue;
      Require(*next++ == bits->first + k, "a bit where there is no row");
    }
    Require(next == rows.begin() + static_cast<std::ptrdiff_t>(block.begin + block.count),
            "a row without a bit");
  }
}

// The rows in two bytes each while they are in order: judged as strictly, and the same ones.
void CheckNarrow(const Encoding& encoding, const EncodedHeader& header, const TensorSpec& spec,
                 std::span<const std::string_view> indices, const absl::Status& expected,
                 const std::vector<uint64_t>& rows) {
  if (encoding.name != "coo.raw" || header.sparse_dim != 1 || header.nnz == 0) return;
  const TensorLayout layout = MakeLayout(spec).value();
  if (layout.num_rows >> 32 != 0) return;  // its segments take memory
  const auto narrow = NarrowRows::Make(layout.num_rows, header.nnz);
  const MutableCooView out = {
      .layout = layout, .nnz = header.nnz, .rows = RowStorage(narrow.get())};
  const auto decoder = encoding.decoder(header, spec, out);
  const absl::Status status = AppendIndices(*decoder, indices);
  Require(status == expected || (status.ok() && !expected.ok()),
          "rows that may be narrow are judged otherwise");
  if (!status.ok() || !expected.ok()) return;
  const EntryOrder order = OrderOf(rows.data(), rows.size());
  Require(decoder->order() == order, "another order of narrow rows");
  Require((narrow->wide() != nullptr) == (order == EntryOrder::kUnsorted),
          "rows in order are not narrow, or others are");
  for (uint64_t e = 0; e < rows.size(); ++e) {
    Require(narrow->RowOf(e) == rows[e], "other rows come out of narrow ones");
  }
}

// Memory of exactly the size that the decoder may write: sanitizers see one byte more. Both ways of
// decoding must end alike.
absl::Status Decode(const Encoding& encoding, const EncodedHeader& header, const TensorSpec& spec,
                    std::string_view indices, std::string_view values, size_t piece, Entries& out) {
  const TensorLayout layout = MakeLayout(spec).value();
  out.rows.assign(header.nnz, ~uint64_t{0});
  out.values.assign(header.nnz * layout.row_bytes(), std::byte{0xA5});
  const auto index_pieces = Cut(indices, piece);
  const auto value_pieces = Cut(values, piece);
  const absl::Status status =
      encoding.decode(header, spec, index_pieces, value_pieces,
                      {layout, header.nnz, out.rows.data(), out.values.data()});
  Entries arriving;
  const absl::Status arrived =
      DecodeArriving(encoding, header, spec, index_pieces, value_pieces, arriving);
  Require(arrived == status, "decoding as bytes arrive says something else");
  Require(!status.ok() || arriving == out, "decoding as bytes arrive gives something else");
  CheckPacked(encoding, header, spec, index_pieces, status, out.rows);
  CheckNarrow(encoding, header, spec, index_pieces, status, out.rows);
  return status;
}

void RoundTrip(const Encoding& encoding, EncodedHeader header, const TensorSpec& spec,
               const Entries& entries) {
  const TensorLayout layout = MakeLayout(spec).value();
  std::string indices;
  std::string values;
  const absl::Status encoded =
      encoding.encode({layout, entries.rows.size(), entries.rows.data(), entries.values.data()},
                      header, indices, values);
  if (!encoded.ok()) {
    // Not every encoding holds every entry.
    const std::string reason = ErrorReason(encoded);
    Require(reason == "UNSORTED_ENTRIES" || reason == "VALUE_NOT_CODABLE" ||
                reason == "UNKNOWN_VALUES_ENCODING",
            "valid entries cannot be encoded: " + encoded.ToString());
    return;
  }
  Require(header.indices_bytes == indices.size() && header.values_bytes == values.size(),
          "the encoder states other sizes than it made");
  Require(InspectTensor(header, spec).ok(), "the encoder's own header is refused");
  Entries decoded;
  Require(Decode(encoding, header, spec, indices, values, 7, decoded).ok(),
          "the encoder's own bytes are refused");
  Require(decoded.rows == entries.rows, "decode(encode(x)) has other rows");
  const bool exact = header.values_encoding.empty() || header.values_encoding == "raw";
  Require(!exact || decoded.values == entries.values, "decode(encode(x)) has other values");
}

// Bytes that may be anything.
void DecodeAny(const Encoding& encoding, const EncodedHeader& header, const TensorSpec& spec,
               std::string_view indices, std::string_view values, size_t piece) {
  if (!InspectTensor(header, spec).ok()) return;
  const TensorLayout layout = MakeLayout(spec).value();
  if (header.nnz > kDecodedBytesMax / layout.row_bytes()) return;
  Entries entries;
  const absl::Status decoded = Decode(encoding, header, spec, indices, values, piece, entries);
  Entries whole;
  const absl::Status decoded_whole =
      Decode(encoding, header, spec, indices, values, kDecodedBytesMax, whole);
  Require(decoded == decoded_whole, "the cut of the bytes decides whether they are accepted");
  if (!decoded.ok()) return;
  Require(entries == whole, "the cut of the bytes changes the entries");
  for (const uint64_t row : entries.rows) Require(row < layout.num_rows, "a row out of range");
  RoundTrip(encoding, header, spec, entries);
}

// Gives the blocks of coo.packed the checks that their bytes need: chance finds one in 2^24.
void CorrectChecks(uint64_t nnz, std::string& indices) {
  const uint64_t blocks = BlocksOf(nnz);
  if (blocks > indices.size() / sizeof(BlockEntry)) return;
  char* const words = indices.data() + blocks * sizeof(BlockEntry);
  const uint64_t total = (indices.size() - blocks * sizeof(BlockEntry)) / 4;
  const auto entry_of = [&](uint64_t b) {
    BlockEntry entry;
    std::memcpy(&entry, indices.data() + b * sizeof(entry), sizeof(entry));
    return entry;
  };
  for (uint64_t b = 0; b < blocks; ++b) {
    BlockEntry entry = entry_of(b);
    const uint64_t end = b + 1 < blocks ? entry_of(b + 1).begin : total;
    if (end > total || entry.begin > end || end - entry.begin > kBlockWordsMax) return;
    const auto size = static_cast<uint32_t>(end - entry.begin);
    const uint32_t check =
        BlockCheck(entry.first, entry.form(), words + size_t{4} * entry.begin, size);
    entry.tag = entry.form() | check << 8;
    std::memcpy(indices.data() + b * sizeof(entry), &entry, sizeof(entry));
  }
}

void DecodeHostile(const Encoding& encoding, const TensorSpec& spec, FuzzInput& input) {
  EncodedHeader header = HeaderFor(spec, encoding, input);
  header.nnz = input.Below(4) == 0 ? input.Take<uint64_t>() : input.Take<uint16_t>();
  const size_t piece = 1 + input.Below(16);
  std::string indices(input.Bytes(input.Take<uint16_t>()));
  const std::string_view values = input.Rest();
  if (header.encoding == "coo.packed" && piece % 2 == 0) CorrectChecks(header.nnz, indices);
  header.indices_bytes = indices.size();
  header.values_bytes = values.size();
  DecodeAny(encoding, header, spec, indices, values, piece);
}

Entries TakeEntries(const TensorSpec& spec, FuzzInput& input) {
  const TensorLayout layout = MakeLayout(spec).value();
  const bool sorted = input.Below(4) != 0;
  Entries entries;
  const size_t most = spec.sparse_dim == 0 ? 1 : 300;
  while (input.left() >= 4 && entries.rows.size() < most) {
    if ((entries.rows.size() + 1) * layout.row_bytes() > kDecodedBytesMax) break;
    entries.rows.push_back(input.Take<uint32_t>() % layout.num_rows);
    const std::string_view bytes = input.Bytes(layout.row_bytes());
    const size_t before = entries.values.size();
    entries.values.resize(before + layout.row_bytes());
    if (!bytes.empty()) std::memcpy(entries.values.data() + before, bytes.data(), bytes.size());
  }
  if (sorted) std::sort(entries.rows.begin(), entries.rows.end());
  return entries;
}

void EncodeValid(const Encoding& encoding, const TensorSpec& spec, FuzzInput& input) {
  const EncodedHeader header = HeaderFor(spec, encoding, input);
  RoundTrip(encoding, header, spec, TakeEntries(spec, input));
}

// What an encoder made, with one byte changed on the way.
void DecodeDamaged(const Encoding& encoding, const TensorSpec& spec, FuzzInput& input) {
  EncodedHeader header = HeaderFor(spec, encoding, input);
  const auto at = input.Take<uint16_t>();
  const auto byte = input.Take<char>();
  const size_t piece = 1 + input.Below(16);
  const Entries entries = TakeEntries(spec, input);
  std::string indices;
  std::string values;
  const CooView view = {MakeLayout(spec).value(), entries.rows.size(), entries.rows.data(),
                        entries.values.data()};
  if (!encoding.encode(view, header, indices, values).ok()) return;
  std::string& damaged = at % 4 == 0 ? values : indices;
  if (!damaged.empty()) damaged[at / 4 % damaged.size()] = byte;
  DecodeAny(encoding, header, spec, indices, values, piece);
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::FuzzInput input(data, size);
  const Encoding& encoding = AllEncodings()[input.Below(AllEncodings().size())];
  const size_t way = input.Below(3);
  const TensorSpec spec = fuzz::TakeSpec(input);
  if (!MakeLayout(spec).ok()) return 0;
  if (way == 0) fuzz::DecodeHostile(encoding, spec, input);
  if (way == 1) fuzz::EncodeValid(encoding, spec, input);
  if (way == 2) fuzz::DecodeDamaged(encoding, spec, input);
  return 0;
}
