// Tags and lengths of protobuf's wire format
// (https://protobuf.dev/programming-guides/encoding/).
#ifndef SPARSEAGG_PROTO_WIRE_FORMAT_H_
#define SPARSEAGG_PROTO_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace sparseagg {

inline constexpr uint32_t kWireVarint = 0;
inline constexpr uint32_t kWireFixed64 = 1;
inline constexpr uint32_t kWireDelimited = 2;
inline constexpr uint32_t kWireFixed32 = 5;

inline void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Appends what precedes a field of type string, bytes or message: its tag and its length, `bytes`.
inline void AppendDelimiter(int field, size_t bytes, std::string& out) {
  AppendVarint(static_cast<uint32_t>(field) << 3 | kWireDelimited, out);
  AppendVarint(bytes, out);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_WIRE_FORMAT_H_
