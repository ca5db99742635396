// Messages of the protocol between JSON and protobuf's bytes, by the standard mapping
// (https://protobuf.dev/programming-guides/json/). No message object is made in between, so memory
// stays close to the size of the text; what the bytes hold is checked where they are read.
#ifndef SPARSEAGG_SERVICE_HTTP_TRANSCODE_H_
#define SPARSEAGG_SERVICE_HTTP_TRANSCODE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sparseagg {

// Thread-safe. `type` is the full name of a message that is linked into the program.

// INVALID_ARGUMENT (MALFORMED_JSON), which names the field. An unknown field is an error.
absl::StatusOr<std::string> JsonToMessage(std::string_view type, const std::string& json);

// INTERNAL (ANSWER_NOT_JSON) if the bytes are not such a message.
absl::StatusOr<std::string> MessageToJson(std::string_view type, const std::string& bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_TRANSCODE_H_
