#include "tests/client/name_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/client/loopback.h"

namespace sparseagg::testing {
namespace {

// Messages of RFC 1035: a header, the question (a name as labels, each preceded by its length, with
// an empty label at the end; type and class), answers.
constexpr size_t kHead = 12;
constexpr size_t kTypeAndClass = 4;
constexpr size_t kSizeMax = 512;
constexpr uint8_t kTypeA = 1;

}  // namespace

NameServer::NameServer(const std::string& ip)
    : socket_(socket(AF_INET, SOCK_DGRAM, 0)), address_(BindToLoopback(socket_)) {
  MoveTo(ip);
  thread_ = std::thread([this] { Answer(); });
}

NameServer::~NameServer() {
  shutdown(socket_,
           SHUT_RDWR);  // an error for a socket without a peer, and yet it wakes the reader
  thread_.join();
  close(socket_);
}

void NameServer::MoveTo(const std::string& ip) { ip_ = inet_addr(ip.c_str()); }

void NameServer::Answer() {
  for (;;) {
    std::string message(kSizeMax, '\0');
    sockaddr_in peer{};
    socklen_t peer_size = sizeof(peer);
    auto* raw = reinterpret_cast<sockaddr*>(&peer);
    const ssize_t got = recvfrom(socket_, message.data(), message.size(), 0, raw, &peer_size);
    if (got <= 0) return;
    const size_t name_end = message.find('\0', kHead);
    const size_t question_end = name_end + 1 + kTypeAndClass;
    if (question_end > static_cast<size_t>(got)) continue;
    const bool of_ipv4 = message[name_end + 2] == kTypeA;
    message.resize(question_end);
    message[2] = static_cast<char>(0x84);                   // an authoritative answer
    message[3] = 0;                                         // no error
    message.replace(4, 8, {0, 1, 0, of_ipv4, 0, 0, 0, 0});  // numbers of questions and answers
    if (of_ipv4) {
      // The name of the question, type A, class IN, kept for 0 s, 4 bytes.
      message += std::string({static_cast<char>(0xC0), kHead, 0, kTypeA, 0, 1, 0, 0, 0, 0, 0, 4});
      const uint32_t ip = ip_;
      message.append(reinterpret_cast<const char*>(&ip), sizeof(ip));
    }
    sendto(socket_, message.data(), message.size(), 0, raw, peer_size);
  }
}

}  // namespace sparseagg::testing
