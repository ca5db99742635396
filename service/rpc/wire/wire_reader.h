// Reads protobuf's wire format from a chain of pieces without copying. It accepts exactly what
// protobuf's own parser accepts: groups of unknown fields, lengths of at most five bytes, tags
// truncated to 32 bits (https://protobuf.dev/programming-guides/encoding/).
//
//   message := field*      field := tag content      tag := varint(number << 3 | wire type)
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_WIRE_READER_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_WIRE_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/wire_format.h"
#include "sparse/encoding.h"

namespace sparseagg {

// A range of the bytes, read from its front. Cheap to copy. A function returns false at bytes that
// are not a valid message; the reader must not be used after that. The pieces must outlive the
// reader.
class WireReader {
 public:
  WireReader() = default;
  explicit WireReader(ByteChain bytes);

  uint64_t size() const { return size_; }
  bool AtEnd() const { return size_ == 0; }
  // How many more levels of messages and groups may be nested here.
  int depth_left() const { return depth_left_; }

  bool ReadTag(uint32_t* tag);
  // Reads the content of a field of wire type 2 and moves past it. `content` is one level deeper.
  bool ReadLengthDelimited(WireReader* content);
  // Moves past the content of a field, whatever its type.
  bool SkipField(uint32_t tag) { return SkipField(tag, depth_left_); }

  // The bytes from this position to that of `later`. REQUIRES: `later` is a later position in the
  // same range.
  WireReader Until(const WireReader& later) const;

  // The number of varints in the rest.
  uint64_t CountVarints() const;

  // The part of the rest that is in its first piece.
  std::string_view FirstPiece() const;
  void AppendTo(std::string& out) const;
  // Appends the rest as views.
  void AppendPieces(std::vector<std::string_view>* pieces) const;

 private:
  static constexpr int kDepthMax = 100;  // levels of nesting: protobuf's default

  bool ReadByte(uint8_t* byte);
  bool ReadVarint(int bytes_max, uint64_t* value);
  bool Skip(uint64_t bytes);
  bool SkipField(uint32_t tag, int depth_left);
  bool SkipGroup(uint32_t number, int depth_left);
  void DropEmptyPieces();
  template <typename OnPiece>
  void EachPiece(OnPiece on_piece) const;

  const std::string_view* piece_ = nullptr;  // at the read position
  uint64_t offset_ = 0;                      // in it
  uint64_t size_ = 0;                        // bytes left
  int depth_left_ = kDepthMax;
};

// Calls on_field(tag, content, field) for each field of `message`: `content` is the content of a
// length-delimited field, otherwise empty; `field` is all of its bytes. Returns false if the bytes
// are malformed or on_field returns false.
template <typename OnField>
bool EachField(WireReader message, OnField on_field) {
  while (!message.AtEnd()) {
    const WireReader start = message;
    uint32_t tag = 0;
    WireReader content;
    if (!message.ReadTag(&tag)) return false;
    const bool delimited = (tag & 7) == kWireDelimited;
    if (!(delimited ? message.ReadLengthDelimited(&content) : message.SkipField(tag))) return false;
    if (!on_field(tag, content, start.Until(message))) return false;
  }
  return true;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_WIRE_READER_H_
