#include "service/rpc/self_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

// Both ends of the probe's connection, and a reserve for what other threads open at the same time.
constexpr int kDescriptorsNeeded = 8;

bool HasDescriptors() {
  std::vector<int> opened;
  while (opened.size() < kDescriptorsNeeded) {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) break;
    opened.push_back(fd);
  }
  for (const int fd : opened) close(fd);
  return opened.size() == kDescriptorsNeeded;
}

// The connection preface of HTTP/2 (RFC 9113, 3.4) and an empty SETTINGS frame.
constexpr std::string_view kHello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

class Connection {
 public:
  explicit Connection(int family)
      : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool IsAnswered(const sockaddr* to, socklen_t bytes, std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    if (fd_ < 0 || (connect(fd_, to, bytes) != 0 && errno != EINPROGRESS)) return false;
    int error = 0;
    socklen_t size = sizeof(error);
    if (!Wait(POLLOUT, end) || getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
        error != 0 || send(fd_, kHello.data(), kHello.size(), MSG_NOSIGNAL) < 0) {
      return false;
    }
    // Bytes or the end of the stream: the connection was accepted.
    return Wait(POLLIN, end);
  }

 private:
  bool Wait(short event, std::chrono::steady_clock::time_point end) const {
    pollfd waiting = {fd_, event, 0};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      const int ready = poll(&waiting, 1, static_cast<int>(left.count()));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

  const int fd_;
};

bool IsAnsweredOnUnix(std::string_view path, std::chrono::milliseconds timeout) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof(to.sun_path)) return false;
  std::memcpy(to.sun_path, path.data(), path.size());
  return Connection(AF_UNIX).IsAnswered(reinterpret_cast<const sockaddr*>(&to), sizeof(to),
                                        timeout);
}

bool IsAnsweredOnTcp(const std::string& address, std::chrono::milliseconds timeout) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return false;
  }
  bool answered = false;
  for (const addrinfo* to = found; to != nullptr && !answered; to = to->ai_next) {
    answered = Connection(to->ai_family).IsAnswered(to->ai_addr, to->ai_addrlen, timeout);
  }
  freeaddrinfo(found);
  return answered;
}

bool IsAnswered(const std::string& address, std::chrono::milliseconds timeout) {
  for (const std::string_view prefix : {"unix://", "unix:"}) {
    if (address.starts_with(prefix)) {
      return IsAnsweredOnUnix(std::string_view(address).substr(prefix.size()), timeout);
    }
  }
  return IsAnsweredOnTcp(address, timeout);
}

}  // namespace

ProbeResult Probe(const std::string& address, std::chrono::milliseconds timeout) {
  if (!HasDescriptors()) return ProbeResult::kNoDescriptors;
  if (IsAnswered(address, timeout)) return ProbeResult::kAnswers;
  // Other threads may have used up the descriptors in the meantime.
  return HasDescriptors() ? ProbeResult::kUnreachable : ProbeResult::kNoDescriptors;
}

std::string AddressToDial(const std::string& listen, int port) {
  if (port == 0) return listen;
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host == "0.0.0.0" || host == "*" || host.empty()) host = "127.0.0.1";
  if (host == "[::]") host = "[::1]";
  return absl::StrCat(host, ":", port);
}

SelfProbe::SelfProbe(std::chrono::milliseconds interval, std::function<ProbeResult()> probe,
                     SelfProbeEvents events)
    : events_(std::move(events)),
      ticker_(interval, [this, probe = std::move(probe)] { Record(probe()); }) {}

void SelfProbe::Record(ProbeResult result) {
  const bool had_none = std::exchange(no_descriptors_, result == ProbeResult::kNoDescriptors);
  switch (result) {
    case ProbeResult::kAnswers:
      failures_ = 0;
      if (!std::exchange(answered_, true)) events_.first_answer();
      return;
    case ProbeResult::kNoDescriptors:
      // A restart would only cut the existing connections.
      if (!had_none) events_.no_descriptors();
      return;
    case ProbeResult::kUnreachable:
      if (++failures_ == kTries) events_.unreachable(failures_);
      return;
  }
}

}  // namespace sparseagg
