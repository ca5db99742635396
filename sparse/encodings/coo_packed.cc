#include "sparse/encodings/coo_packed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/encodings/chain_reader.h"
#include "sparse/encodings/packed_block.h"
#include "sparse/encodings/raw_values.h"
#include "sparse/encodings/size_error.h"
#include "sparse/encodings/unit_cutter.h"
#include "sparse/encodings/value_coding.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

static_assert(std::endian::native == std::endian::little, "words are copied, not converted");

constexpr size_t kWordBytes = 4;

// Decodes one block after another. The reader of the entries is one entry ahead of the reader of
// the words, because a block's words end where those of the next one begin.
class BlockReader {
 public:
  BlockReader(const EncodedHeader& header, uint64_t num_rows, ByteChain indices)
      : header_(header),
        num_rows_(num_rows),
        blocks_(BlocksOf(header.nnz)),
        total_words_((header.indices_bytes - blocks_ * sizeof(BlockEntry)) / kWordBytes),
        entries_(indices),
        words_(indices) {
    words_.Skip(blocks_ * sizeof(BlockEntry));
    entries_.Read(&next_, sizeof(next_));
  }

  bool done() const { return block_ == blocks_; }
  // The order of the rows in the blocks so far.
  EntryOrder order() const { return distinct_ ? EntryOrder::kCanonical : EntryOrder::kSorted; }

  // Skips the next blocks as long as they are crowded and valid. `bytes` is the index array in one
  // piece. Next() handles all other blocks, and finds what is wrong with them.
  void SkipCrowdedBlocks(const char* bytes) {
    const uint64_t block_before = block_;
    const uint64_t position_before = position_;
    const char* words = bytes + blocks_ * sizeof(BlockEntry);
    while (block_ + 1 < blocks_) {  // the last one may be short
      const auto after = LoadAs<BlockEntry>(bytes + (block_ + 1) * sizeof(BlockEntry));
      const uint64_t num_words = after.begin - position_;  // huge if `after` begins before it
      if (next_.begin != position_ || after.begin > total_words_) break;
      uint64_t last;
      if (!IsCrowdedBlock(next_, words + position_ * kWordBytes, num_words, last)) break;
      if (next_.first >= num_rows_ || last >= num_rows_) break;
      if (block_ > 0 && next_.first <= last_) break;
      last_ = last;
      position_ = after.begin;
      next_ = after;
      ++block_;
    }
    entries_.Skip((block_ - block_before) * sizeof(BlockEntry));
    words_.Skip((position_ - position_before) * kWordBytes);
  }

  // Writes the next block's rows to `rows`; if that is null, only checks them.
  absl::Status Next(uint64_t* rows) {
    const uint64_t first_entry = block_ * kBlockEntries;
    const auto count =
        static_cast<uint32_t>(std::min<uint64_t>(kBlockEntries, header_.nnz - first_entry));
    const BlockEntry entry = next_;
    uint64_t end = total_words_;
    if (block_ + 1 < blocks_) {
      entries_.Read(&next_, sizeof(next_));
      end = next_.begin;
    }
    SPARSEAGG_RETURN_IF_ERROR(CheckSize(entry, end, count));
    const auto num_words = static_cast<uint32_t>(end - position_);
    position_ = end;
    const char* words = words_.Take(num_words * kWordBytes, kBlockSlackBytes, buffer_.data());
    if (BlockCheck(entry.first, entry.form(), words, num_words) != entry.check()) {
      return MakeError(absl::StatusCode::kDataLoss, "CHECKSUM_MISMATCH",
                       absl::StrCat(Where(),
                                    ": its check does not agree with its content; the "
                                    "bytes were damaged, send them again"));
    }
    // Checking the last row alone would not suffice. From a first row in range, which is below
    // 2^63, no form wraps around to a last row in range.
    if (entry.first >= num_rows_) return OutOfRange({&entry.first, 1}, first_entry);
    BlockRows found;
    const char* wrong =
        rows == nullptr ? InspectBlock(entry.first, entry.form(), words, num_words, count, found)
                        : UnpackBlock(entry.first, entry.form(), words, num_words, count, rows);
    if (wrong != nullptr) return Malformed(wrong);
    if (rows != nullptr) {
      found = {rows[count - 1], entry.form() < kRepeatsForm || entry.form() == kBitmapForm ||
                                    OrderOf(rows, count) == EntryOrder::kCanonical};
    }
    if (block_ > 0 && entry.first < last_) {
      return Malformed("it begins below the end of the block before");
    }
    distinct_ &= found.distinct && (block_ == 0 || entry.first > last_);
    last_ = found.last;
    if (last_ >= num_rows_) {
      std::array<uint64_t, kBlockEntries> all;
      UnpackBlock(entry.first, entry.form(), words, num_words, count, all.data());
      return OutOfRange(std::span(all).first(count), first_entry);
    }
    ++block_;
    return absl::OkStatus();
  }

 private:
  std::string Where() const {
    return absl::StrCat("tensor \"", header_.name, "\": block ", block_, " of ", blocks_);
  }
  absl::Status Malformed(std::string_view what) const {
    return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_BLOCK",
                     absl::StrCat(Where(), ": ", std::string(what)));
  }

  absl::Status CheckSize(const BlockEntry& entry, uint64_t end, uint32_t count) const {
    if (entry.begin != position_) {
      return Malformed(absl::StrCat("it begins at word ", entry.begin, ", expected ", position_));
    }
    if (end < position_ || end > total_words_ || end - position_ > kBlockWordsMax) {
      return Malformed(absl::StrCat("it ends at word ", end, " of ", total_words_,
                                    "; a block has at most ", kBlockWordsMax, " words"));
    }
    if (entry.form() == kBitmapForm) return absl::OkStatus();
    if (entry.form() > kBitmapForm) {
      return Malformed(absl::StrCat("there is no form ", entry.form()));
    }
    const uint32_t words = PackedWords(count, entry.form() % kRepeatsForm);
    if (end - position_ != words) {
      return Malformed(absl::StrCat("form ", entry.form(), " with ", count, " entries needs ",
                                    words, " words, it has ", end - position_));
    }
    return absl::OkStatus();
  }

  absl::Status OutOfRange(std::span<const uint64_t> rows, uint64_t first_entry) const {
    const auto at = std::lower_bound(rows.begin(), rows.end(), num_rows_);
    return MakeError(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE",
                     absl::StrCat("tensor \"", header_.name, "\": row ", *at, " at entry ",
                                  first_entry + static_cast<uint64_t>(at - rows.begin()),
                                  " is not below ", num_rows_, " rows"));
  }

  const EncodedHeader& header_;
  const uint64_t num_rows_;
  const uint64_t blocks_;
  const uint64_t total_words_;
  ChainReader entries_;
  ChainReader words_;
  BlockEntry next_;
  uint64_t block_ = 0;
  uint64_t position_ = 0;  // of the next block, in words
  uint64_t last_ = 0;      // last row of the previous block
  bool distinct_ = true;
  std::array<char, kBlockWordsMax * kWordBytes + kBlockSlackBytes> buffer_;
};

// Writes all rows to `rows`; if that is null, only checks them, and `indices` must be one piece.
// Sets `order`.
absl::Status DecodeRows(const EncodedHeader& header, const TensorSpec& spec, ByteChain indices,
                        uint64_t* rows, EntryOrder& order) {
  if (header.nnz == 0) return absl::OkStatus();
  if (header.sparse_dim == 0) {
    rows[0] = 0;
    return absl::OkStatus();
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(spec));
  BlockReader blocks(header, layout.num_rows, indices);
  while (!blocks.done()) {
    if (rows == nullptr) blocks.SkipCrowdedBlocks(indices[0].data());
    SPARSEAGG_RETURN_IF_ERROR(blocks.Next(rows));
    if (rows != nullptr) rows += kBlockEntries;
  }
  order = blocks.order();
  return absl::OkStatus();
}

// Scales precede the values, so that decoding a value needs bytes from two places.
bool HasScales(ValueForm form) { return form == ValueForm::kInt8 || form == ValueForm::kInt4; }

ValueForm FormOf(const EncodedHeader& header) {
  const auto coding = FindValueCoding(header);
  return coding.ok() ? coding->form : ValueForm::kRaw;  // inspect() refuses unknown ones
}

class PackedDecoder : public TensorDecoder {
 public:
  PackedDecoder(const EncodedHeader& header, const TensorSpec& spec, const MutableCooView& out)
      : header_(header),
        spec_(spec),
        out_(out),
        form_(FormOf(header)),
        cutter_(static_cast<size_t>(CodedBytes(form_, header.value_type, 1))),
        raw_values_(header, out.values) {
    if (header.sparse_dim > 0 || header.nnz == 0) return;
    out.rows.wide()[0] = 0;
  }

  // Decodes all of them when the last byte has arrived.
  absl::Status AppendIndices(std::string_view bytes) override {
    std::string_view all;
    if (const std::span<char> packed = out_.rows.packed(); !packed.empty()) {
      std::memcpy(packed.data() + packed_bytes_, bytes.data(), bytes.size());
      packed_bytes_ += bytes.size();
      if (packed_bytes_ < header_.indices_bytes) return absl::OkStatus();
      all = {packed.data(), packed_bytes_};
    } else {
      if (!Buffer(bytes, header_.indices_bytes)) return absl::OkStatus();
      all = buffered_;
    }
    SPARSEAGG_RETURN_IF_ERROR(
        DecodeRows(header_, spec_, ByteChain(&all, 1), out_.rows.wide(), order_));
    std::string().swap(buffered_);  // = {} would keep its memory
    return absl::OkStatus();
  }

  absl::Status AppendValues(std::string_view bytes) override {
    if (form_ == ValueForm::kRaw) return raw_values_.Append(bytes);
    if (!HasScales(form_)) {
      return cutter_.Feed(bytes, [this](const char* from, uint64_t count) {
        const auto size = static_cast<size_t>(CodedBytes(form_, header_.value_type, count));
        return Decode({from, size}, count);
      });
    }
    if (!Buffer(bytes, header_.values_bytes)) return absl::OkStatus();
    SPARSEAGG_RETURN_IF_ERROR(Decode(buffered_, header_.nnz * out_.layout.row_width));
    std::string().swap(buffered_);  // = {} would keep its memory
    return absl::OkStatus();
  }

  EntryOrder order() const override { return order_; }
  uint64_t values() const override {
    return form_ == ValueForm::kRaw ? raw_values_.values() : values_;
  }
  uint64_t finite_values() const override { return raw_values_.finite_values(); }

 private:
  // Buffers `bytes`. Returns whether all of `total` bytes have arrived.
  bool Buffer(std::string_view bytes, uint64_t total) {
    if (buffered_.empty()) buffered_.reserve(total);
    buffered_.append(bytes);
    return buffered_.size() == total;
  }

  absl::Status Decode(std::string_view bytes, uint64_t count) {
    auto* out = static_cast<char*>(out_.values) + values_ * SizeOf(header_.value_type);
    values_ += count;
    return DecodeValues(header_, form_, count, ByteChain(&bytes, 1), out);
  }

  const EncodedHeader& header_;
  const TensorSpec& spec_;
  const MutableCooView out_;
  const ValueForm form_;
  UnitCutter cutter_;
  RawValues raw_values_;
  std::string buffered_;
  uint64_t packed_bytes_ = 0;  // bytes received of rows that stay packed
  EntryOrder order_ = EntryOrder::kUnknown;
  uint64_t values_ = 0;
};

}  // namespace

absl::Status InspectCooPacked(const EncodedHeader& header, const TensorSpec& spec) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(spec));
  SPARSEAGG_RETURN_IF_ERROR(CheckDenseNnz(header));
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueCoding coding, FindValueCoding(header));
  const unsigned __int128 values =
      CodedBytes(coding.form, layout.value_type,
                 static_cast<unsigned __int128>(header.nnz) * layout.row_width);
  if (values != header.values_bytes) {
    return SizeError(header, "values", BytesText(values), header.values_bytes);
  }
  if (header.sparse_dim == 0) {
    return header.indices_bytes == 0 ? absl::OkStatus()
                                     : SizeError(header, "indices", "0", header.indices_bytes);
  }
  // This is far below 2^64: nnz is bounded by the values, which take at least half a byte each.
  const uint64_t blocks = BlocksOf(header.nnz);
  const uint64_t entries = blocks * sizeof(BlockEntry);
  using Wide = unsigned __int128;
  const Wide words = std::min(Wide{blocks} * kBlockWordsMax, Wide{UINT32_MAX});
  const Wide most = entries + words * kWordBytes;
  if (header.indices_bytes < entries || header.indices_bytes > most ||
      header.indices_bytes % kWordBytes != 0) {
    const std::string range =
        absl::StrCat("a multiple of 4 from ", entries, " to ", BytesText(most));
    return SizeError(header, "indices", blocks == 0 ? "0" : range, header.indices_bytes);
  }
  return absl::OkStatus();
}

absl::Status DecodeCooPacked(const EncodedHeader& header, const TensorSpec& spec, ByteChain indices,
                             ByteChain values, const MutableCooView& out) {
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueCoding coding, FindValueCoding(header));
  EntryOrder order;
  SPARSEAGG_RETURN_IF_ERROR(DecodeRows(header, spec, indices, out.rows.wide(), order));
  return DecodeValues(header, coding.form, header.nnz * out.layout.row_width, values, out.values);
}

std::unique_ptr<TensorDecoder> CooPackedDecoder(const EncodedHeader& header, const TensorSpec& spec,
                                                const MutableCooView& out) {
  return std::make_unique<PackedDecoder>(header, spec, out);
}

uint64_t CooPackedBufferedBytes(const EncodedHeader& header) {
  return std::max(header.indices_bytes, HasScales(FormOf(header)) ? header.values_bytes : 0);
}

void AppendPackedIndices(const uint64_t* rows, uint64_t nnz, std::string& out) {
  const size_t entries_begin = out.size();
  out.resize(out.size() + BlocksOf(nnz) * sizeof(BlockEntry));
  std::array<uint32_t, kBlockWordsMax> words;
  uint32_t begin = 0;
  for (uint64_t block = 0; block < BlocksOf(nnz); ++block) {
    const uint64_t* from = rows + block * kBlockEntries;
    const auto count =
        static_cast<uint32_t>(std::min<uint64_t>(kBlockEntries, nnz - block * kBlockEntries));
    const PackedForm plan = ChoosePackedForm(from, count);
    PackBlock(from, count, plan, words.data());
    const uint32_t check = BlockCheck(*from, plan.form, words.data(), plan.words);
    const BlockEntry entry{*from, begin, plan.form | check << 8};
    std::memcpy(out.data() + entries_begin + block * sizeof(entry), &entry, sizeof(entry));
    out.append(reinterpret_cast<const char*>(words.data()), plan.words * kWordBytes);
    begin += plan.words;
  }
}

absl::Status EncodeCooPacked(const CooView& entries, EncodedHeader& header, std::string& indices,
                             std::string& values) {
  const size_t indices_before = indices.size();
  const size_t values_before = values.size();
  header.encoding = "coo.packed";
  header.nnz = entries.nnz;
  SPARSEAGG_ASSIGN_OR_RETURN(const ValueCoding coding, FindValueCoding(header));
  if (OrderOf(entries.rows.wide(), entries.nnz) == EntryOrder::kUnsorted) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "UNSORTED_ENTRIES",
        absl::StrCat("tensor \"", header.name,
                     "\": coo.packed needs ascending indices; sort the entries first"));
  }
  SPARSEAGG_RETURN_IF_ERROR(EncodeValues(header, coding, entries.values,
                                         entries.nnz * entries.layout.row_width, 0, values));
  if (header.sparse_dim > 0) AppendPackedIndices(entries.rows.wide(), entries.nnz, indices);
  header.indices_bytes = indices.size() - indices_before;
  header.values_bytes = values.size() - values_before;
  return absl::OkStatus();
}

}  // namespace sparseagg
