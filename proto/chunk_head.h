// Messages whose payload is not copied into them: what stands in front of it on the wire.
#ifndef SPARSEAGG_PROTO_CHUNK_HEAD_H_
#define SPARSEAGG_PROTO_CHUNK_HEAD_H_

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <string>

namespace sparseagg {

// A message that has nothing but `chunk` as its field `chunk_field`, up to where the bytes of the
// chunk's field `data_field` begin: `data_bytes` of them are to follow, and end the message.
// REQUIRES: the chunk has no data, and with them is below 2 GiB.
inline std::string ChunkHead(int chunk_field, const google::protobuf::MessageLite& chunk,
                             int data_field, size_t data_bytes) {
  using google::protobuf::internal::WireFormatLite;
  using google::protobuf::io::CodedOutputStream;
  const auto open = [](int field, size_t bytes) {
    uint8_t buffer[16];
    const uint32_t tag = WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    uint8_t* end = CodedOutputStream::WriteVarint32ToArray(
        static_cast<uint32_t>(bytes), CodedOutputStream::WriteTagToArray(tag, buffer));
    return std::string(&buffer[0], end);
  };
  const std::string inner = chunk.SerializeAsString() + open(data_field, data_bytes);
  return open(chunk_field, inner.size() + data_bytes) + inner;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_CHUNK_HEAD_H_
