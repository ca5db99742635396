#include "tests/proto/facts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sparseagg/v1/aggregation.pb.h"
#include "sparseagg/v1/tasks.pb.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

std::string TypeName(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

std::string Label(const FieldDescriptor& field) {
  if (field.is_map()) return "map";
  if (field.is_repeated()) return "repeated";
  if (field.real_containing_oneof() != nullptr) {
    return absl::StrCat("in oneof ", field.real_containing_oneof()->name());
  }
  return field.has_presence() && field.message_type() == nullptr ? "optional" : "singular";
}

void AddEnum(const EnumDescriptor& descriptor, std::set<std::string>& facts) {
  for (int i = 0; i < descriptor.value_count(); ++i) {
    const auto& value = *descriptor.value(i);
    facts.insert(absl::StrCat("value ", value.full_name(), " = ", value.number(), " in ",
                              descriptor.full_name()));
  }
}

void AddMessage(const Descriptor& message, std::set<std::string>& facts) {
  facts.insert(absl::StrCat("message ", message.full_name()));
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    facts.insert(absl::StrCat("field ", field.full_name(), " = ", field.number(), " ",
                              TypeName(field), " ", Label(field)));
  }
  for (int i = 0; i < message.reserved_range_count(); ++i) {
    const Descriptor::ReservedRange& range = *message.reserved_range(i);
    for (int number = range.start; number < range.end; ++number) {
      facts.insert(absl::StrCat("reserved ", message.full_name(), " = ", number));
    }
  }
  for (int i = 0; i < message.reserved_name_count(); ++i) {
    facts.insert(absl::StrCat("reserved ", message.full_name(), ".", message.reserved_name(i)));
  }
  for (int i = 0; i < message.nested_type_count(); ++i) AddMessage(*message.nested_type(i), facts);
  for (int i = 0; i < message.enum_type_count(); ++i) AddEnum(*message.enum_type(i), facts);
}

void AddService(const ServiceDescriptor& service, std::set<std::string>& facts) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& rpc = *service.method(i);
    facts.insert(
        absl::StrCat("rpc ", rpc.full_name(), ": ", rpc.client_streaming() ? "stream " : "",
                     rpc.input_type()->full_name(), " -> ", rpc.server_streaming() ? "stream " : "",
                     rpc.output_type()->full_name()));
  }
}

// "field sparseagg.v1.Receipt.sequence = 5 uint64 singular" is reserved when its number and its
// name are.
bool IsReserved(const std::string& fact, const std::set<std::string>& current) {
  const std::vector<std::string> words = absl::StrSplit(fact, ' ');
  if (words.size() < 4 || words[0] != "field") return false;
  const std::string message = words[1].substr(0, words[1].rfind('.'));
  return current.contains(absl::StrCat("reserved ", message, " = ", words[3])) &&
         current.contains(absl::StrCat("reserved ", words[1]));
}

}  // namespace

std::set<std::string> InterfaceFacts(const FileDescriptor& file) {
  std::set<std::string> facts;
  for (int i = 0; i < file.message_type_count(); ++i) AddMessage(*file.message_type(i), facts);
  for (int i = 0; i < file.enum_type_count(); ++i) AddEnum(*file.enum_type(i), facts);
  for (int i = 0; i < file.service_count(); ++i) AddService(*file.service(i), facts);
  return facts;
}

std::set<std::string> CurrentInterfaceFacts() {
  std::set<std::string> facts = InterfaceFacts(*v1::Round::descriptor()->file());
  facts.merge(InterfaceFacts(*v1::CreateRoundRequest::descriptor()->file()));
  facts.merge(InterfaceFacts(*v1::Task::descriptor()->file()));
  return facts;
}

std::vector<std::string> BrokenFacts(const std::set<std::string>& released,
                                     const std::set<std::string>& current) {
  std::vector<std::string> broken;
  for (const std::string& fact : released) {
    if (!current.contains(fact) && !IsReserved(fact, current)) broken.push_back(fact);
  }
  return broken;
}

}  // namespace sparseagg
