// The leaves of rounds, as far as this client knows them, and a client for each. A round has leaves
// when a server refuses an update with WRONG_LEAF; the root is then asked for them once.
#ifndef SPARSEAGG_CLIENT_LEAVES_H_
#define SPARSEAGG_CLIENT_LEAVES_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace sparseagg::client {

// Thread-safe.
class Leaves {
 public:
  // `options` are those of the connections.
  explicit Leaves(ClientOptions options) : options_(std::move(options)) {}

  // Returns the client of the contributor's leaf; null if the round is not known to have leaves.
  // It lives as long as this object.
  absl::StatusOr<Client*> Find(const std::string& round, const std::string& contributor);
  void Learn(const std::string& round, const RoundTree& tree);
  void Forget(const std::string& round);

 private:
  const ClientOptions options_;
  std::mutex mutex_;
  std::map<std::string, RoundTree> trees_;  // by round
  std::map<std::string, std::unique_ptr<Client>> by_address_;
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_LEAVES_H_
