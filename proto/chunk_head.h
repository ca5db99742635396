// Serializes the part of a message that precedes its payload, so that the payload need not be
// copied into the message.
#ifndef SPARSEAGG_PROTO_CHUNK_HEAD_H_
#define SPARSEAGG_PROTO_CHUNK_HEAD_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <string>

#include "proto/wire_format.h"

namespace sparseagg {

// Serializes a message whose only field, number `chunk_field`, is `chunk`, up to where the bytes of
// the chunk's field `data_field` begin. The caller appends `data_bytes` bytes of data, which
// complete the message. REQUIRES: `chunk` has no data yet, and is below 2 GiB with it.
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
