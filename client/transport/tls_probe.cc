#include "client/transport/tls_probe.h"

#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace sparseagg::client {
namespace {

constexpr int kWaitMs = 2000;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = address.substr(colon + 1);
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) return nullptr;
  return Addresses(list);
}

// A ClientHello with gRPC's application protocol (ALPN h2).
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> session(SSL_new(context.get()), &SSL_free);
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(session.get(), BIO_new(BIO_s_mem()), out);  // the session owns it from here on
  constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2.data(), kHttp2.size());
  SSL_connect(session.get());  // returns because it needs an answer
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

class Connection {
 public:
  explicit Connection(const addrinfo& address)
      : socket_(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    // In progress; the first write shows whether it succeeds.
    static_cast<void>(connect(socket_, address.ai_addr, address.ai_addrlen));
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends `words` and returns the first bytes of the answer, fewer if the answer is shorter.
  std::string Exchange(const std::string& words, size_t bytes) const {
    if (!IsReady(POLLOUT) || send(socket_, words.data(), words.size(), MSG_NOSIGNAL) < 0) return {};
    std::string answer(bytes, '\0');
    const ssize_t got =
        IsReady(POLLIN) ? recv(socket_, answer.data(), answer.size(), 0) : ssize_t{0};
    answer.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return answer;
  }

 private:
  bool IsReady(int16_t for_what) const {
    pollfd waiting{socket_, for_what, 0};
    return poll(&waiting, 1, kWaitMs) == 1;
  }

  const int socket_;
};

// Whether the bytes begin a TLS record: its type, here handshake or alert, and the major version 3.
bool IsRecordOfTls(const std::string& bytes) {
  return bytes.size() == 2 && (bytes[0] == 22 || bytes[0] == 21) && bytes[1] == 3;
}

}  // namespace

bool SpeaksTls(const std::string& address) {
  const std::string hello = ClientHello();
  const Addresses addresses = Resolve(address);
  for (const addrinfo* candidate = addresses.get(); candidate != nullptr;
       candidate = candidate->ai_next) {
    if (IsRecordOfTls(Connection(*candidate).Exchange(hello, 2))) return true;
  }
  return false;
}

}  // namespace sparseagg::client
