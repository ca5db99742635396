// Servers that may answer at an address in place of a sparseagg server: a reverse proxy that speaks
// HTTP/2 and refuses, an HTTP/1 server, an HTTP proxy that does not connect.
#ifndef SPARSEAGG_TESTS_CLIENT_OTHER_SERVER_H_
#define SPARSEAGG_TESTS_CLIENT_OTHER_SERVER_H_

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sparseagg::testing {

class OtherServer {
 public:
  enum class Speaks { kHttp1, kHttp2 };
  // Listens on a free port of 127.0.0.1 and answers every request with `status`.
  OtherServer(Speaks language, int status);
  ~OtherServer();
  OtherServer(const OtherServer&) = delete;
  OtherServer& operator=(const OtherServer&) = delete;

  const std::string& address() const { return address_; }
  int answers() const { return answers_; }

 private:
  void Accept();
  void AnswerHttp1(int connection);
  void AnswerHttp2(int connection);

  const Speaks language_;
  const std::string status_;
  const int listener_;
  std::string address_;
  std::atomic<int> answers_ = 0;
  std::mutex mutex_;
  std::vector<int> connections_;      // guarded by mutex_; closed at the end
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_OTHER_SERVER_H_
