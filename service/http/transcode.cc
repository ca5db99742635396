#include "service/http/transcode.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

constexpr char kUrlPrefix[] = "type.googleapis.com";

google::protobuf::util::TypeResolver& Resolver() {
  static google::protobuf::util::TypeResolver& resolver =
      *google::protobuf::util::NewTypeResolverForDescriptorPool(
          kUrlPrefix, google::protobuf::DescriptorPool::generated_pool());
  return resolver;
}

std::string UrlOf(std::string_view type) {
  return absl::StrCat(kUrlPrefix, "/", std::string(type));
}

// The first line of protobuf's message; the others repeat the text and point into it.
std::string FirstLine(std::string_view message) {
  return std::string(message.substr(0, message.find('\n')));
}

}  // namespace

absl::StatusOr<std::string> JsonToMessage(std::string_view type, const std::string& json) {
  std::string bytes;
  const auto status =
      google::protobuf::util::JsonToBinaryString(&Resolver(), UrlOf(type), json, &bytes);
  if (status.ok()) return bytes;
  return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_JSON",
                   absl::StrCat("the body is not a ", std::string(type),
                                " in JSON: ", FirstLine(status.message().ToString())));
}

absl::StatusOr<std::string> MessageToJson(std::string_view type, const std::string& bytes) {
  std::string json;
  const auto status =
      google::protobuf::util::BinaryToJsonString(&Resolver(), UrlOf(type), bytes, &json);
  if (status.ok()) return json;
  return MakeError(absl::StatusCode::kInternal, "ANSWER_NOT_JSON",
                   absl::StrCat("the bytes are not a ", std::string(type), ": ",
                                FirstLine(status.message().ToString())));
}

}  // namespace sparseagg
