#include "tests/client/other_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

#include "tests/client/loopback.h"

namespace sparseagg::testing {
namespace {

// Frames of HTTP/2 (RFC 9113): 3 bytes of size, 1 of type, 1 of flags, 4 of stream, payload.
constexpr size_t kFrameHead = 9;
constexpr size_t kPreface = 24;
constexpr char kHeaders = 1;
constexpr char kSettings = 4;
constexpr char kAck = 1;
constexpr char kEndOfStreamAndHeaders = 5;

// `size` bytes; nullopt when the connection ends before.
std::optional<std::string> Receive(int connection, size_t size) {
  std::string bytes(size, '\0');
  if (size == 0) return bytes;
  const ssize_t got = recv(connection, bytes.data(), size, MSG_WAITALL);
  return got == static_cast<ssize_t>(size) ? std::optional(bytes) : std::nullopt;
}

void Send(int connection, const std::string& bytes) {
  send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string Frame(char type, char flags, const std::string& stream, const std::string& payload) {
  const auto size = static_cast<char>(payload.size());
  return std::string({'\0', '\0', size, type, flags}) + stream + payload;
}

// A field of HPACK without compression and index.
std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

}  // namespace

OtherServer::OtherServer(Speaks language, int status)
    : language_(language),
      status_(std::to_string(status)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      address_(ListenOnLoopback(listener_)) {
  acceptor_ = std::thread([this] { Accept(); });
}

OtherServer::~OtherServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int connection : connections_) close(connection);
}

void OtherServer::Accept() {
  for (;;) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    threads_.emplace_back([this, connection] {
      language_ == Speaks::kHttp1 ? AnswerHttp1(connection) : AnswerHttp2(connection);
      shutdown(connection, SHUT_RDWR);
    });
  }
}

// Answers one request, either CONNECT or the start of HTTP/2, after reading its header.
void OtherServer::AnswerHttp1(int connection) {
  std::string head;
  while (!head.ends_with("\r\n\r\n")) {
    const auto byte = Receive(connection, 1);
    if (!byte.has_value()) return;
    head += *byte;
  }
  ++answers_;
  Send(connection,
       "HTTP/1.1 " + status_ + " Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

void OtherServer::AnswerHttp2(int connection) {
  const std::string connection_itself(4, '\0');
  if (!Receive(connection, kPreface).has_value()) return;
  Send(connection, Frame(kSettings, 0, connection_itself, ""));
  for (;;) {
    const auto head = Receive(connection, kFrameHead);
    if (!head.has_value()) return;
    size_t size = 0;
    for (size_t i = 0; i < 3; ++i) size = size * 256 + static_cast<uint8_t>((*head)[i]);
    if (!Receive(connection, size).has_value()) return;
    const char type = (*head)[3];
    if (type == kSettings && (*head)[4] == 0) {
      Send(connection, Frame(kSettings, kAck, connection_itself, ""));
    }
    if (type == kHeaders) {
      ++answers_;
      Send(connection,
           Frame(kHeaders, kEndOfStreamAndHeaders, head->substr(5), Field(":status", status_)));
    }
  }
}

}  // namespace sparseagg::testing
