// Checks that the server still accepts connections. A gRPC server that has once run out of file
// descriptors may never accept a connection again (measured with 1.51.1), although the process is
// healthy and its existing connections work. So the server regularly connects to itself, as a
// client would; if it does not answer, the process ends and its supervisor restarts it.
#ifndef SPARSEAGG_SERVICE_RPC_SELF_PROBE_H_
#define SPARSEAGG_SERVICE_RPC_SELF_PROBE_H_

#include <chrono>
#include <functional>
#include <string>

#include "service/rpc/ticker.h"

namespace sparseagg {

enum class ProbeResult {
  kAnswers,
  kUnreachable,    // no answer
  kNoDescriptors,  // the process cannot open a connection; the listener's state is unknown
};

// Opens a connection to the server at `address` and sends the HTTP/2 preface. Any reaction counts
// as an answer: the server's preface, or closing the connection, as a server with TLS does. So no
// credentials are needed. Blocks for at most `timeout`.
ProbeResult Probe(const std::string& address, std::chrono::milliseconds timeout);

// The address at which a server that listens on `listen` (HOST:PORT or unix:PATH) and got the port
// `port` can be reached from this machine.
std::string AddressToDial(const std::string& listen, int port);

struct SelfProbeEvents {
  std::function<void()> first_answer;          // once
  std::function<void()> no_descriptors;        // at the first such probe in a row
  std::function<void(int tries)> unreachable;  // after kTries probes in a row without an answer
};

class SelfProbe {
 public:
  static constexpr int kTries = 3;

  // Calls `probe` every `interval` on a thread of its own, and the events on the same thread.
  SelfProbe(std::chrono::milliseconds interval, std::function<ProbeResult()> probe,
            SelfProbeEvents events);

 private:
  void Record(ProbeResult result);

  const SelfProbeEvents events_;
  bool answered_ = false;
  bool no_descriptors_ = false;
  int failures_ = 0;  // in a row
  Ticker ticker_;     // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SELF_PROBE_H_
