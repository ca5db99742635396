// What of a message protobuf is given to read. It keeps what it does not know, and makes lists, in
// up to a hundred times the bytes that they had: so the first is left out, and the second counted.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_KNOWN_FIELDS_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_KNOWN_FIELDS_H_

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <string>

#include "service/engine/limits.h"
#include "service/rpc/wire/wire_reader.h"
#include "sparse/types.h"

namespace sparseagg {

// Numbers in the lists of one message: twice the dimensions of a tensor, so that one with a few too
// many is refused with the reason why.
inline constexpr uint64_t kListedNumbersMax = 2 * kRankMax;

// Appends the fields of a message of `type` that its .proto has, in their order, to `out`. False
// when the bytes are no message; when `elements`, to which the messages and strings in its lists
// are added, becomes more than kRoundTensorsMax; or when it, or a message in it, lists more than
// kListedNumbersMax numbers.
bool AppendKnownFields(WireReader bytes, const google::protobuf::Descriptor& type,
                       uint64_t& elements, std::string& out);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_KNOWN_FIELDS_H_
