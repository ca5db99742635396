// Compares the parser of messages with updates with protobuf's own parser, on the same bytes.
#ifndef SPARSEAGG_TESTS_SUPPORT_PROTOBUF_COMPARISON_H_
#define SPARSEAGG_TESTS_SUPPORT_PROTOBUF_COMPARISON_H_

#include <span>
#include <string>
#include <string_view>

namespace sparseagg::testing {

std::string Joined(std::span<const std::string_view> pieces);

// Cuts `bytes` into pieces that end at `cuts` (ascending, at most bytes.size(); equal ones make
// empty pieces), and parses them as each of the messages with updates. Returns how the two parsers
// differ, "" if they agree.
std::string DifferenceFromProtobuf(const std::string& bytes, std::span<const size_t> cuts);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_PROTOBUF_COMPARISON_H_
