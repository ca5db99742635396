// Messages whose payload is not copied into them: what stands in front of it on the wire.
#ifndef SPARSEAGG_PROTO_CHUNK_HEAD_H_
#define SPARSEAGG_PROTO_CHUNK_HEAD_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <string>

#include "proto/wire_format.h"

namespace sparseagg {

// A message that has nothing but `chunk` as its field `chunk_field`, up to where the bytes of the
// chunk's field `data_field` begin: `data_bytes` of them are to follow, and end the message.
// REQUIRES: the chunk has no data, and with them is below 2 GiB.
inline std::string ChunkHead(int chunk_field, const google::protobuf::MessageLite& chunk,
                             int data_field, size_t data_bytes) {
  std::string inner = chunk.SerializeAsString();
  AppendDelimiter(data_field, data_bytes, inner);
  std::string head;
  AppendDelimiter(chunk_field, inner.size() + data_bytes, head);
  return head + inner;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_CHUNK_HEAD_H_
