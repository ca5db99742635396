#include "service/rpc/known_fields.h"

#include "proto/wire_format.h"

namespace sparseagg {
namespace {

using google::protobuf::FieldDescriptor;

uint32_t WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return kWireFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return kWireFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return kWireDelimited;
    default:
      return kWireVarint;
  }
}

// A known number with another wire type is an unknown field to protobuf. A list of numbers may come
// packed.
bool IsKnown(const FieldDescriptor* field, uint32_t wire_type) {
  if (field == nullptr) return false;
  return wire_type == WireTypeOf(*field) || (wire_type == kWireDelimited && field->is_packable());
}

}  // namespace

bool AppendKnownFields(WireReader bytes, const google::protobuf::Descriptor& type,
                       uint64_t& elements, std::string& out) {
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader& whole) {
    const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
    if (!IsKnown(field, tag & 7)) return true;
    const bool is_element = field->is_repeated() && !field->is_packable();
    if (is_element && ++elements > kRoundTensorsMax) return false;
    if (field->message_type() == nullptr) {
      whole.AppendTo(out);
      return true;
    }
    std::string inner;
    if (!AppendKnownFields(content, *field->message_type(), elements, inner)) return false;
    AppendDelimiter(field->number(), inner.size(), out);
    out += inner;
    return true;
  });
}

}  // namespace sparseagg
