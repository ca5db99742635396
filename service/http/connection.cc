#include "service/http/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "service/http/answer_head.h"
#include "service/http/hang_up.h"
#include "service/http/request_parser.h"
#include "service/http/time_limits.h"
#include "service/http/tls_contexts.h"
#include "service/rpc/stream/stream_pace.h"

namespace sparseagg {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBadRequest = 400;

constexpr size_t kHeadReadBytes = 4 << 10;
constexpr size_t kBodyReadBytes = 64 << 10;
// A body above this size is read only from a caller with a valid credential.
constexpr uint64_t kOpenBodyBytesMax = 16 << 10;
// Larger answers are refused while the memory is full; they come from calls that change nothing.
constexpr size_t kSmallAnswerBytes = 64 << 10;

tcp::socket& SocketOf(tcp::socket& stream) { return stream; }
tcp::socket& SocketOf(asio::ssl::stream<tcp::socket>& stream) { return stream.next_layer(); }

// Every function runs on the strand of the socket, but those of Connection.
template <typename Stream>
class StreamConnection : public Connection,
                         public std::enable_shared_from_this<StreamConnection<Stream>> {
 public:
  static constexpr bool kIsTls = !std::is_same_v<Stream, tcp::socket>;

  // `stream`: the arguments of the stream's constructor.
  template <typename... Arguments>
  StreamConnection(EdgeContext& context, std::string peer, Arguments&&... stream)
      : Connection(context),
        stream_(std::forward<Arguments>(stream)...),
        peer_(std::move(peer)),
        deadline_(stream_.get_executor()) {}

  void Start() override {
    Post([](StreamConnection& self) { self.Begin(); });
  }
  void CloseIfIdle() override {
    Post([](StreamConnection& self) {
      if (self.state_ == State::kIdle) self.Close();
    });
  }
  void Abort() override {
    Post([](StreamConnection& self) { self.Close(); });
  }

 private:
  enum class State : uint8_t { kHandshake, kIdle, kHead, kBody, kCall, kAnswer, kEnd };

  tcp::socket& socket() { return SocketOf(stream_); }

  template <typename Step>
  void Post(Step step) {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this(), step = std::move(step)] { step(*self); });
  }

  // --- Time limits ---

  // Ends what is in progress after `time` (OnDeadline).
  void SetDeadline(milliseconds time) {
    timed_out_ = false;
    StartTimer(time);
  }
  void StartTimer(milliseconds time) {
    deadline_.expires_after(time);
    deadline_.async_wait([self = this->shared_from_this()](const error_code& error) {
      // A deadline that was set since then has moved the expiry.
      if (!error && self->deadline_.expiry() <= Clock::now()) self->OnDeadline();
    });
  }
  // A request that is too slow gets an answer (OnRead); in the other states the connection ends.
  void OnDeadline() {
    if (state_ == State::kCall) return LookForHangUp();
    const bool again = std::exchange(timed_out_, true);
    if (again || (state_ != State::kHead && state_ != State::kBody)) return Close();
    // Nothing is cancelled if a step of a read has just succeeded: OnRead looks at timed_out_, and
    // a read over TLS, which may take another step, has until the next deadline.
    StartTimer(kLookTime);
    error_code ignored;
    socket().cancel(ignored);
  }
  void ClearDeadline() { deadline_.expires_at(Clock::time_point::max()); }

  // --- Reading a request ---

  void Begin() {
    if constexpr (kIsTls) {
      SetDeadline(kHandshakeTime);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const error_code& error) {
                                if (error) return self->Close();
                                self->certificate_names_ =
                                    PeerCertificateNames(self->stream_.native_handle());
                                self->BeginRequest();
                              });
    } else {
      BeginRequest();
    }
  }

  void BeginRequest() {
    if (state_ == State::kEnd) return;
    if (context_.draining) return Close();
    parser_.emplace();
    PrepareParser(*parser_, HeldBytes(&context_.memory),
                  BodyBytesMax(context_.rules, /*is_text=*/true));
    request_ = {};
    head_ = {};
    head_is_checked_ = false;
    if (buffer_.size() > 0) {  // pipelined
      state_ = State::kHead;
      SetDeadline(kHeadTime);
      return Parse();
    }
    buffer_ = {};
    state_ = State::kIdle;
    SetDeadline(kIdleTime);
    Read();
  }

  void Read() {
    const size_t bytes = state_ == State::kBody ? kBodyReadBytes : kHeadReadBytes;
    stream_.async_read_some(buffer_.prepare(bytes), [self = this->shared_from_this()](
                                                        const error_code& error, size_t read) {
      self->OnRead(error, read);
    });
  }

  void OnRead(const error_code& error, size_t bytes) {
    if (state_ == State::kEnd) return;
    if (error || timed_out_) return OnReadError();
    buffer_.commit(bytes);
    if (state_ == State::kIdle) {
      state_ = State::kHead;
      SetDeadline(kHeadTime);
    }
    if (state_ == State::kBody) {
      const absl::Status pace = pace_->EndWait(Clock::now(), bytes, /*uploading=*/true);
      if (!pace.ok()) return Refuse(TooSlow(kBodyTooSlow), kRequestTimeout);
    }
    Parse();
  }

  void OnReadError() {
    if (timed_out_ && state_ == State::kHead) {
      return Refuse(TooSlow(kHeadTooSlow), kRequestTimeout);
    }
    if (timed_out_ && state_ == State::kBody) return Refuse(TooSlow(kBodyTooSlow), kRequestTimeout);
    Close();
  }

  void ReadMore() {
    if (state_ == State::kBody) {
      pace_->BeginWait(Clock::now());
      SetDeadline(BodyWaitTime(context_.limits));
    }
    Read();
  }

  void Parse() {
    while (!parser_->is_done()) {
      if (buffer_.size() == 0) return ReadMore();
      error_code error;
      const size_t parsed = parser_->put(buffer_.data(), error);
      buffer_.consume(parsed);
      if (error == http::error::need_more && buffer_.size() <= kHttpHeadBytesMax) return ReadMore();
      if (error) return RefuseMalformed(error);
      if (parser_->is_header_done() && !std::exchange(head_is_checked_, true)) {
        if (!TakeHead()) return;
      } else if (parsed == 0) {
        return ReadMore();
      }
    }
    StartCall();
  }

  // Returns whether the body can be parsed now.
  bool TakeHead() {
    const RequestHead& head = parser_->get();
    std::optional<uint64_t> bytes;
    if (const auto length = parser_->content_length()) bytes = *length;
    head_.close = !parser_->keep_alive();
    head_.says_keep_alive = head.version() == 10;
    head_.cors = CorsHeaders(head, context_.rules.origins);
    without_body_ = head.method() == http::verb::head;
    if (const absl::Status framing = CheckTransferEncoding(head); !framing.ok()) {
      Refuse(framing, kBadRequest);  // and closes: where the next request begins is unknown
      return false;
    }
    auto checked = CheckHead(head, bytes, context_.rules);
    if (const auto* answer = std::get_if<WebAnswer>(&checked)) {
      if (!parser_->is_done()) head_.close = true;  // the body is not read
      Send(*answer);
      return false;
    }
    request_ = std::get<CheckedRequest>(std::move(checked));
    if (parser_->is_done()) return true;
    parser_->get().body().bytes_max = BodyBytesMax(context_.rules, IsText(request_->protocol));
    if (bytes.value_or(kOpenBodyBytesMax + 1) > kOpenBodyBytesMax && !HasCredential()) {
      head_.close = true;
      StartCall();  // without its body, so that the gate refuses, counts and logs it
      return false;
    }
    state_ = State::kBody;
    pace_.emplace(context_.limits);
    if (!http::token_list(head[http::field::expect]).exists("100-continue")) return true;
    SendContinue();
    return false;
  }

  bool HasCredential() const {
    if (context_.authenticator == nullptr) return true;
    PresentedCredentials presented{.certificate_names = certificate_names_};
    for (const auto& [name, value] : request_->metadata) {
      if (name == "authorization") presented.authorization.push_back(value);
    }
    return context_.authenticator->Authenticate(presented).ok();
  }

  void SendContinue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    SetDeadline(kHeadTime);
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = this->shared_from_this()](const error_code& error, size_t /*bytes*/) {
                        const bool ended = self->timed_out_ || self->state_ == State::kEnd;
                        if (error || ended) return self->Close();
                        self->Parse();
                      });
  }

  void RefuseMalformed(const error_code& error) {
    const bool text = !request_.has_value() || IsText(request_->protocol);
    const auto [status, http_status] =
        ParseError(error, BodyBytesMax(context_.rules, text), context_.memory.bytes_max());
    Refuse(status, http_status);
  }

  // Answers with an error, after which nothing of this connection can be understood.
  void Refuse(const absl::Status& why, int http_status) {
    head_.close = true;
    if (parser_.has_value()) parser_->get().body() = {};
    Send(EncodeAnswer(request_.has_value() ? request_->protocol : WebProtocol::kConnectJson,
                      HttpMethod(), ErrorAnswer(why), http_status));
  }

  // --- The call ---

  void StartCall() {
    if (!parser_->is_header_done() || !request_.has_value()) return Close();
    ClearDeadline();
    state_ = State::kCall;
    auto& body = parser_->get().body();
    // After the body of a refused caller was not read, there is nothing to decode.
    absl::StatusOr<std::string> message =
        parser_->is_done()
            ? DecodeRequest(request_->protocol, *request_->method, std::move(body.bytes))
            : "";
    if (!message.ok()) return OnAnswer(ErrorAnswer(message.status()));
    LocalCall call{.method = request_->method->path,
                   .request = *std::move(message),
                   .metadata = std::move(request_->metadata),
                   .peer = peer_,
                   .certificate_names = certificate_names_,
                   .timeout = request_->timeout};
    cancel_ = context_.calls->Start(
        std::move(call), [self = this->shared_from_this()](LocalAnswer answer) {
          self->Post([answer = std::make_shared<LocalAnswer>(std::move(answer))](
                         StreamConnection& connection) { connection.OnAnswer(*answer); });
        });
    WatchForHangUp();
  }

  // Ends a call whose client has closed the connection. Waits for anything that comes.
  void WatchForHangUp() {
    socket().async_wait(tcp::socket::wait_read,
                        [self = this->shared_from_this()](const error_code& error) {
                          if (!error && self->state_ == State::kCall) self->LookForHangUp();
                        });
  }

  // What else came, such as the next request, stays unread, and another wait would end at once. So
  // the timer, which a call has no other use for, repeats the look.
  void LookForHangUp() {
    if (HasHungUp(socket().native_handle())) return Close();
    SetDeadline(kLookTime);
  }

  void OnAnswer(const LocalAnswer& answer) {
    if (state_ != State::kCall) return;
    cancel_ = nullptr;
    error_code ignored;
    socket().cancel(ignored);  // WatchForHangUp()
    parser_->get().body() = {};
    WebAnswer encoded = EncodeAnswer(request_->protocol, *request_->method, answer);
    const size_t bytes = encoded.body.size();
    answer_held_ = HeldBytes(&context_.memory);
    if (bytes > kSmallAnswerBytes && !answer_held_.Grow(bytes)) {
      const error_code full =
          boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
      encoded = EncodeAnswer(request_->protocol, *request_->method,
                             ErrorAnswer(ParseError(full, 0, context_.memory.bytes_max()).first));
    } else if (bytes <= kSmallAnswerBytes) {
      answer_held_.Force(bytes);
    }
    Send(std::move(encoded));
  }

  // --- Sending the answer ---

  void Send(WebAnswer answer) {
    state_ = State::kAnswer;
    head_.close |= context_.draining;
    answer_text_ = PrintHead(answer, head_);
    answer_body_ = without_body_ ? "" : std::move(answer.body);
    SetDeadline(AnswerTime(context_.limits, answer_body_.size()));
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(answer_text_),
                                                     asio::buffer(answer_body_)};
    asio::async_write(stream_, parts,
                      [self = this->shared_from_this()](const error_code& error, size_t /*bytes*/) {
                        self->OnSent(error);
                      });
  }

  void OnSent(const error_code& error) {
    answer_text_ = {};
    answer_body_ = {};
    answer_held_.Release();
    if (error || state_ == State::kEnd) return Close();
    if (head_.close) return SayGoodbye();
    BeginRequest();
  }

  // --- The end ---

  // Lets the client read the last answer: closing a socket with unread bytes would discard it.
  void SayGoodbye() {
    state_ = State::kEnd;
    SetDeadline(kGoodbyeTime);
    if constexpr (kIsTls) {
      stream_.async_shutdown([self = this->shared_from_this()](const error_code& /*error*/) {
        if (self->timed_out_) return self->Close();
        self->ShutDown();
      });
    } else {
      ShutDown();
    }
  }

  void ShutDown() {
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    buffer_ = {};
    parser_.reset();
    // A body above its limit has been refused. Its client reads the answer after it has sent all.
    DiscardRest(2 * BodyBytesMax(context_.rules, /*is_text=*/true));
  }

  // Until the client closes its side, has sent more than `bytes_max`, or the time is over.
  void DiscardRest(uint64_t bytes_max) {
    socket().async_read_some(
        buffer_.prepare(kHeadReadBytes),
        [self = this->shared_from_this(), bytes_max](const error_code& error, size_t bytes) {
          if (error || bytes > bytes_max) return self->Close();
          self->DiscardRest(bytes_max - bytes);
        });
  }

  void Close() {
    state_ = State::kEnd;
    if (const auto cancel = std::exchange(cancel_, nullptr)) cancel();
    deadline_.cancel();
    error_code ignored;
    socket().close(ignored);
  }

  Stream stream_;
  const std::string peer_;
  std::vector<std::string> certificate_names_;
  State state_ = State::kHandshake;

  asio::steady_timer deadline_;
  bool timed_out_ = false;
  std::optional<StreamPace> pace_;  // of the body

  boost::beast::flat_buffer buffer_;  // received and not parsed
  std::optional<RequestParser> parser_;
  bool head_is_checked_ = false;
  std::optional<CheckedRequest> request_;  // unset until the head is accepted
  std::function<void()> cancel_;           // set while a call is in progress

  AnswerHead head_;
  bool without_body_ = false;  // the answer to HEAD
  std::string answer_text_;    // its head, while it is sent
  std::string answer_body_;
  HeldBytes answer_held_;
};

}  // namespace

std::shared_ptr<Connection> NewConnection(tcp::socket socket, std::string peer,
                                          asio::ssl::context* tls, EdgeContext& context) {
  std::shared_ptr<Connection> connection;
  if (tls == nullptr) {
    connection = std::make_shared<StreamConnection<tcp::socket>>(context, std::move(peer),
                                                                 std::move(socket));
  } else {
    connection = std::make_shared<StreamConnection<asio::ssl::stream<tcp::socket>>>(
        context, std::move(peer), std::move(socket), *tls);
  }
  context.connections.Add(connection);
  return connection;
}

}  // namespace sparseagg
