// A TCP proxy on this machine that breaks its first connections after some bytes, as networks do.
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
  // Forwards to 127.0.0.1:`port`. Connection i (from 0) breaks after cuts[i] bytes to the server;
  // later connections live.
  CuttingProxy(int port, std::vector<uint64_t> cuts);
  ~CuttingProxy();

  const std::string& address() const { return address_; }
  size_t connections() const { return connections_; }

 private:
  void Accept();

  int port_;
  std::vector<uint64_t> cuts_;
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
