#include "service/rpc/wire/known_fields.h"

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

// The number of list elements in a field of this wire type.
uint64_t NumbersIn(const FieldDescriptor& field, uint32_t wire_type, const WireReader& content) {
  if (wire_type != kWireDelimited) return 1;
  switch (WireTypeOf(field)) {
    case kWireFixed64:
      return content.size() / 8;
    case kWireFixed32:
      return content.size() / 4;
    default:
      return content.CountVarints();
  }
}

}  // namespace

bool AppendKnownFields(WireReader bytes, const google::protobuf::Descriptor& type,
                       uint64_t& elements, std::string& out) {
  uint64_t numbers = 0;
  return EachField(bytes, [&](uint32_t tag, const WireReader& content, const WireReader& whole) {
    const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
    if (!IsKnown(field, tag & 7)) return true;
    if (field->is_packable()) {
      numbers += NumbersIn(*field, tag & 7, content);
      if (numbers > kListedNumbersMax) return false;
    } else if (field->is_repeated() && ++elements > kRoundTensorsMax) {
      return false;
    }
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
