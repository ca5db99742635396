#include "service/rpc/wire/wire_reader.h"

#include <algorithm>
#include <limits>

namespace sparseagg {
namespace {

// Besides those of proto/wire_format.h.
constexpr uint32_t kStartGroup = 3;
constexpr uint32_t kEndGroup = 4;

// Protobuf reads ahead by this many bytes, and refuses a length that would exceed 31 bits with
// them.
constexpr uint64_t kLengthMax = std::numeric_limits<int32_t>::max() - 16;

}  // namespace

WireReader::WireReader(ByteChain bytes) : piece_(bytes.data()) {
  for (const std::string_view piece : bytes) size_ += piece.size();
}

void WireReader::DropEmptyPieces() {
  while (offset_ == piece_->size()) {
    ++piece_;
    offset_ = 0;
  }
}

bool WireReader::ReadByte(uint8_t* byte) {
  if (size_ == 0) return false;
  DropEmptyPieces();
  *byte = static_cast<uint8_t>((*piece_)[offset_++]);
  --size_;
  return true;
}

bool WireReader::ReadVarint(int bytes_max, uint64_t* value) {
  if (size_ > 0 && offset_ < piece_->size()) {  // most varints have one byte
    const auto byte = static_cast<uint8_t>((*piece_)[offset_]);
    if (byte < 0x80) {
      *value = byte;
      ++offset_;
      --size_;
      return true;
    }
  }
  *value = 0;
  for (int i = 0; i < bytes_max; ++i) {
    uint8_t byte = 0;
    if (!ReadByte(&byte)) return false;
    *value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::ReadTag(uint32_t* tag) {
  uint64_t value = 0;
  if (!ReadVarint(5, &value)) return false;
  *tag = static_cast<uint32_t>(value);
  return *tag >> 3 != 0;
}

bool WireReader::Skip(uint64_t bytes) {
  if (bytes > size_) return false;
  size_ -= bytes;
  while (bytes > 0) {
    DropEmptyPieces();
    const uint64_t step = std::min<uint64_t>(bytes, piece_->size() - offset_);
    offset_ += step;
    bytes -= step;
  }
  return true;
}

bool WireReader::ReadLengthDelimited(WireReader* content) {
  uint64_t length = 0;
  if (!ReadVarint(5, &length) || length > kLengthMax || length > size_) return false;
  *content = *this;
  content->size_ = length;
  --content->depth_left_;
  return Skip(length);
}

bool WireReader::SkipField(uint32_t tag, int depth_left) {
  uint64_t varint = 0;
  WireReader content;
  switch (tag & 7) {
    case kWireVarint:
      return ReadVarint(10, &varint);
    case kWireFixed64:
      return Skip(8);
    case kWireDelimited:
      return ReadLengthDelimited(&content);
    case kStartGroup:
      return depth_left > 0 && SkipGroup(tag >> 3, depth_left - 1);
    case kWireFixed32:
      return Skip(4);
    default:  // kEndGroup: without its start
      return false;
  }
}

bool WireReader::SkipGroup(uint32_t number, int depth_left) {
  while (true) {
    uint32_t tag = 0;
    if (!ReadTag(&tag)) return false;
    if ((tag & 7) == kEndGroup) return tag >> 3 == number;
    if (!SkipField(tag, depth_left)) return false;
  }
}

WireReader WireReader::Until(const WireReader& later) const {
  WireReader range = *this;
  range.size_ = size_ - later.size_;
  return range;
}

template <typename OnPiece>
void WireReader::EachPiece(OnPiece on_piece) const {
  WireReader rest = *this;
  while (rest.size_ > 0) {
    const std::string_view piece = rest.FirstPiece();
    on_piece(piece);
    rest.Skip(piece.size());
  }
}

std::string_view WireReader::FirstPiece() const {
  if (size_ == 0) return {};
  WireReader rest = *this;
  rest.DropEmptyPieces();
  return rest.piece_->substr(rest.offset_, rest.size_);
}

uint64_t WireReader::CountVarints() const {
  uint64_t count = 0;
  EachPiece([&count](std::string_view piece) {
    count += std::count_if(piece.begin(), piece.end(),
                           [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
  });
  return count;
}

void WireReader::AppendPieces(std::vector<std::string_view>* pieces) const {
  EachPiece([pieces](std::string_view piece) { pieces->push_back(piece); });
}

void WireReader::AppendTo(std::string& out) const {
  EachPiece([&out](std::string_view piece) { out.append(piece); });
}

}  // namespace sparseagg
