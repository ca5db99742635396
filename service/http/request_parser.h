// The parser of a request: Beast's, for HTTP/1.0 and 1.1, with a body whose memory is counted as it
// arrives and not as it is announced. The caller feeds it bytes; nothing here knows sockets.
#ifndef SPARSEAGG_SERVICE_HTTP_REQUEST_PARSER_H_
#define SPARSEAGG_SERVICE_HTTP_REQUEST_PARSER_H_

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "service/http/memory_budget.h"

namespace sparseagg {

inline constexpr uint32_t kHttpHeadBytesMax = 16 << 10;

// A Body of Beast (https://www.boost.org/libs/beast/doc/html/beast/concepts/Body.html).
struct CountedBody {
  struct value_type {
    std::string bytes;
    HeldBytes held;
    uint64_t bytes_max = 0;
  };

  static std::uint64_t size(const value_type& body) { return body.bytes.size(); }

  class reader {  // NOLINT(readability-identifier-naming): Beast's name
   public:
    template <bool kIsRequest, class Fields>
    reader(boost::beast::http::header<kIsRequest, Fields>& /*head*/, value_type& body)
        : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*bytes: a promise*/,
              boost::beast::error_code& error) {
      error = {};
    }
    template <class ConstBuffers>
    std::size_t put(const ConstBuffers& buffers, boost::beast::error_code& error) {
      error = {};
      std::size_t bytes = 0;
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        Append({static_cast<const char*>(buffer.data()), buffer.size()}, error);
        if (error) break;
        bytes += buffer.size();
      }
      return bytes;
    }
    void finish(boost::beast::error_code& error) { error = {}; }

   private:
    void Append(std::string_view bytes, boost::beast::error_code& error) {
      if (bytes.size() > body_.bytes_max - body_.bytes.size()) {
        error = boost::beast::http::error::body_limit;
      } else if (!body_.held.Grow(bytes.size())) {
        error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
      } else {
        body_.bytes.append(bytes);
      }
    }

    value_type& body_;
  };
};

using RequestParser = boost::beast::http::request_parser<CountedBody>;
using RequestHead = boost::beast::http::request_header<>;

// Prepares a new parser. It stops behind the head, so that the caller can decide about the body.
// `held` counts the body.
void PrepareParser(RequestParser& parser, HeldBytes held, uint64_t body_bytes_max);

// The error of a request that `error` of the parser ended, and its HTTP status.
std::pair<absl::Status, int> ParseError(const boost::beast::error_code& error,
                                        uint64_t body_bytes_max, uint64_t memory_bytes_max);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_REQUEST_PARSER_H_
