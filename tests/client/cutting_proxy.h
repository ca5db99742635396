// A TCP proxy on this machine that breaks every connection after some bytes, as bad networks do.
#ifndef SPARSEAGG_TESTS_CLIENT_CUTTING_PROXY_H_
#define SPARSEAGG_TESTS_CLIENT_CUTTING_PROXY_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sparseagg::testing {

class CuttingProxy {
 public:
  // Forwards to 127.0.0.1:`port`. A connection breaks after `bytes_max` bytes to the server.
  CuttingProxy(int port, uint64_t bytes_max);
  ~CuttingProxy();

  const std::string& address() const { return address_; }
  size_t connections() const { return connections_; }

 private:
  void Accept();

  int port_;
  uint64_t bytes_max_;
  int listener_;
  std::string address_;
  std::atomic<size_t> connections_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;          // guarded by mutex_; closed at the end
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_CUTTING_PROXY_H_
