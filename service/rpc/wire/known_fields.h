// Filters a message before protobuf parses it. Protobuf's memory for unknown fields and for lists
// is up to a hundred times their bytes on the wire: so unknown fields are removed, and list
// elements are counted.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_KNOWN_FIELDS_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_KNOWN_FIELDS_H_

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <string>

#include "service/engine/limits.h"
#include "service/rpc/wire/wire_reader.h"
#include "sparse/types.h"

namespace sparseagg {

// The most numbers in the lists of one message: twice the largest rank of a tensor, so that a shape
// with a few dimensions too many still gets the precise error.
inline constexpr uint64_t kListedNumbersMax = 2 * kRankMax;

// Appends to `out` the fields of `bytes`, a message of `type`, that its .proto defines, in their
// order. Adds the number of messages and strings in its lists to `elements`. Returns false if the
// bytes are not a valid message, if `elements` exceeds kRoundTensorsMax, or if a message lists more
// than kListedNumbersMax numbers.
bool AppendKnownFields(WireReader bytes, const google::protobuf::Descriptor& type,
                       uint64_t& elements, std::string& out);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_KNOWN_FIELDS_H_
