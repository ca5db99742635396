#include "service/admin/bounded_http.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>

namespace sparseagg {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// `name` is getpeername or getsockname.
void GetAddress(int socket, decltype(getpeername)* name, std::string& ip, int& port) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> service = {};
  if (name(socket, any, &size) != 0 ||
      getnameinfo(any, size, host.data(), host.size(), service.data(), service.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host.data();
  port = std::atoi(service.data());
}

class BoundedStream : public httplib::Stream {
 public:
  // `listening` becomes -1 when the server stops.
  BoundedStream(int socket, const std::atomic<socket_t>& listening)
      : socket_(socket),
        listening_(listening),
        read_end_(Clock::now() + BoundedHttpServer::kTimeout) {}

  bool is_readable() const override { return begin_ < end_ || Wait(POLLIN, read_end_); }
  bool is_writable() const override { return Wait(POLLOUT, write_end_.value_or(read_end_)); }

  ssize_t read(char* data, size_t size) override {
    if (begin_ == end_) {
      if (bytes_left_ == 0 || !Wait(POLLIN, read_end_)) return -1;
      const ssize_t bytes = recv(socket_, buffer_.data(), std::min(buffer_.size(), bytes_left_), 0);
      if (bytes <= 0) return bytes;
      begin_ = 0;
      end_ = static_cast<size_t>(bytes);
      bytes_left_ -= end_;
    }
    const size_t taken = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, taken, data);
    begin_ += taken;
    return static_cast<ssize_t>(taken);
  }

  ssize_t write(const char* data, size_t size) override {
    if (!write_end_) write_end_ = Clock::now() + BoundedHttpServer::kTimeout;
    for (size_t done = 0; done < size;) {
      if (!Wait(POLLOUT, *write_end_)) return -1;
      const ssize_t bytes = send(socket_, data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (bytes < 0 && errno != EAGAIN && errno != EINTR) return -1;
      done += static_cast<size_t>(std::max<ssize_t>(bytes, 0));
    }
    return static_cast<ssize_t>(size);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    GetAddress(socket_, getpeername, ip, port);
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    GetAddress(socket_, getsockname, ip, port);
  }
  socket_t socket() const override { return socket_; }

 private:
  // Waits until the socket is ready. Returns false at `end`, or if the server stops.
  bool Wait(short event, Clock::time_point end) const {
    constexpr milliseconds kBetweenLooks{50};
    pollfd ready = {.fd = socket_, .events = event, .revents = 0};
    do {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      const milliseconds wait = std::clamp(left, milliseconds(0), kBetweenLooks);
      if (poll(&ready, 1, static_cast<int>(wait.count())) > 0) return true;
    } while (Clock::now() < end && listening_ != INVALID_SOCKET);
    return false;
  }

  const int socket_;
  const std::atomic<socket_t>& listening_;
  const Clock::time_point read_end_;
  std::optional<Clock::time_point> write_end_;  // set at the first byte of the answer
  size_t bytes_left_ = BoundedHttpServer::kRequestBytesMax;
  std::array<char, 4096> buffer_;  // because httplib reads headers byte by byte
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

bool BoundedHttpServer::process_and_close_socket(socket_t socket) {
  BoundedStream stream(socket, svr_sock_);
  bool closed = false;
  const bool answered = process_request(stream, /*close_connection=*/true, closed, nullptr);
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return answered;
}

}  // namespace sparseagg
