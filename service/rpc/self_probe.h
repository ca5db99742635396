// Whether the server can still be reached. A gRPC server that once had no file descriptor left for
// a new connection may never accept another one (measured with 1.51.1), although the process is
// well and every connection that it has works on. So it dials itself now and again, as a client
// would; a server that does not hear is ended, for its supervisor to start it again.
#ifndef SPARSEAGG_SERVICE_RPC_SELF_PROBE_H_
#define SPARSEAGG_SERVICE_RPC_SELF_PROBE_H_

#include <chrono>
#include <functional>
#include <string>

#include "service/rpc/ticker.h"

namespace sparseagg {

enum class ProbeResult {
  kAnswers,
  kDeaf,           // nobody answered
  kNoDescriptors,  // the process cannot open a connection: this says nothing about its listener
};

// Begins to speak HTTP/2 to the server at `address`, over a connection of its own. Whatever it does
// about that counts as an answer: sending its part, or, when it wants to be spoken to by TLS,
// hanging up. So no credentials are needed. Blocks for `timeout` at most.
ProbeResult Probe(const std::string& address, std::chrono::milliseconds timeout);

// Where a server that was told to listen on `listen` (HOST:PORT, unix:PATH) can be dialled.
std::string AddressToDial(const std::string& listen, int port);

struct SelfProbeEvents {
  std::function<void()> first_answer;    // once
  std::function<void()> no_descriptors;  // when it begins
  std::function<void(int tries)> deaf;   // after kTries in a row without an answer
};

class SelfProbe {
 public:
  static constexpr int kTries = 3;

  // Calls `probe` every `interval`, and the events from the same thread.
  SelfProbe(std::chrono::milliseconds interval, std::function<ProbeResult()> probe,
            SelfProbeEvents events);

 private:
  void Note(ProbeResult result);

  const SelfProbeEvents events_;
  bool answered_ = false;
  bool no_descriptors_ = false;
  int deaf_ = 0;   // in a row
  Ticker ticker_;  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SELF_PROBE_H_
