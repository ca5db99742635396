// The HTTP edge from the bytes of a request to its message, without sockets: whatever comes, in
// whatever pieces, there is a message or an error with a reason; a message in JSON can be written
// as JSON again.
//
//   input := u8 below 200: bytes of the first piece, the request
//          | u8 from 200 on: 200 + number of the call, its message in JSON
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/status.h"
#include "service/http/answer_head.h"
#include "service/http/request_check.h"
#include "service/http/request_parser.h"
#include "service/http/transcode.h"
#include "service/http/web_protocol.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/silence_protobuf.h"

namespace {

using namespace sparseagg;
using fuzz::Require;

constexpr uint64_t kMessageBytesMax = 2000;

const EdgeRules& Rules() {
  static const EdgeRules& rules = *new EdgeRules{.methods = MethodTable(),
                                                 .origins = Origins("https://a"),
                                                 .message_bytes_max = kMessageBytesMax};
  return rules;
}

void CheckAnswer(const WebAnswer& answer) {
  const std::string head = PrintHead(answer, {});
  Require(head.ends_with("\r\n\r\n") && head.find("\r\n\r\n") == head.size() - 4,
          "a head with an end inside");
  Require(answer.body.size() <= 8192, "an error that is longer than any should be");
}

void CheckError(const absl::Status& error, int http_status = 0) {
  Require(!ErrorReason(error).empty(), "an error without a reason");
  for (const WebProtocol protocol : {WebProtocol::kConnectJson, WebProtocol::kGrpcWebText}) {
    CheckAnswer(EncodeAnswer(protocol, HttpMethod(), ErrorAnswer(error), http_status));
  }
}

// Parses pieces until the request is complete. Returns false if it is malformed or incomplete.
bool Parse(RequestParser& parser, std::string_view first, std::string_view rest) {
  std::string buffer;
  for (const std::string_view piece : {first, rest}) {
    if (piece.empty()) continue;
    buffer += piece;
    while (!parser.is_done() && !buffer.empty()) {
      boost::beast::error_code error;
      const size_t parsed = parser.put(boost::asio::buffer(buffer), error);
      buffer.erase(0, parsed);
      if (error == boost::beast::http::error::need_more) break;
      if (error) {
        const auto [status, http_status] = ParseError(error, kMessageBytesMax, 1);
        CheckError(status, http_status);
        return false;
      }
      if (parsed == 0) break;
    }
  }
  return parser.is_done();
}

void CheckMessage(WebProtocol protocol, const HttpMethod& method, std::string body) {
  const auto message = DecodeRequest(protocol, method, std::move(body));
  if (!message.ok()) return CheckError(message.status());
  if (protocol != WebProtocol::kConnectJson) return;
  const auto json = MessageToJson(method.request_type, *message);
  Require(json.ok(), "a message from JSON that is none");
  const auto again = JsonToMessage(method.request_type, *json);
  Require(again.ok(), "a message whose JSON is none");
}

void CheckJson(size_t number, std::string_view json) {
  auto method = Rules().methods.methods().begin();
  std::advance(method, number % Rules().methods.methods().size());
  CheckMessage(WebProtocol::kConnectJson, method->second, std::string(json));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::SilenceProtobuf();
  fuzz::FuzzInput input(data, size);
  constexpr size_t kJson = 200;
  const size_t kind = input.Take<uint8_t>();
  if (kind >= kJson) {
    CheckJson(kind - kJson, input.Rest());
    return 0;
  }
  const std::string_view first = input.Bytes(kind);
  const std::string_view rest = input.Rest();
  RequestParser parser;
  PrepareParser(parser, HeldBytes(), kMessageBytesMax);
  const bool complete = Parse(parser, first, rest);
  if (!parser.is_header_done()) return 0;
  std::optional<uint64_t> bytes;
  if (const auto length = parser.content_length()) bytes = *length;
  CorsHeaders(parser.get(), Rules().origins);
  if (const absl::Status framing = CheckTransferEncoding(parser.get()); !framing.ok()) {
    CheckError(framing);
    return 0;
  }
  Require(parser.chunked() == (parser.get().count("transfer-encoding") > 0),
          "a body whose end the parser did not look for");
  const auto checked = CheckHead(parser.get(), bytes, Rules());
  if (const auto* answer = std::get_if<WebAnswer>(&checked)) {
    CheckAnswer(*answer);
  } else if (complete) {
    Require(parser.get().body().bytes.size() <= kMessageBytesMax, "a body above its limit");
    const auto& request = std::get<CheckedRequest>(checked);
    CheckMessage(request.protocol, *request.method, std::move(parser.get().body().bytes));
  }
  return 0;
}
