// A DNS server on this machine that returns one address for every name; the address can be changed.
#ifndef SPARSEAGG_TESTS_CLIENT_NAME_SERVER_H_
#define SPARSEAGG_TESTS_CLIENT_NAME_SERVER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace sparseagg::testing {

class NameServer {
 public:
  // Of an IPv4 address.
  explicit NameServer(const std::string& ip);
  ~NameServer();
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  void MoveTo(const std::string& ip);
  // As in dns://ADDRESS/HOST:PORT.
  const std::string& address() const { return address_; }

 private:
  void Answer();

  const int socket_;
  std::string address_;
  std::atomic<uint32_t> ip_;  // as it travels
  std::thread thread_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_NAME_SERVER_H_
