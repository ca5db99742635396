// The leaves of rounds, as far as this client knows them, and a client for each. Every round that
// the server shows is remembered, and a root says which leaves it has.
#ifndef SPARSEAGG_CLIENT_LEAVES_H_
#define SPARSEAGG_CLIENT_LEAVES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace sparseagg::client {

// Thread-safe.
class Leaves {
 public:
  // The most rounds that are remembered; the one that was used least recently is forgotten.
  static constexpr size_t kRoundsMax = 256;

  // `options` are those of the connections to leaves.
  explicit Leaves(ClientOptions options) : options_(std::move(options)) {}

  // Returns the client of the contributor's leaf; null if the round is not known to have leaves.
  absl::StatusOr<std::shared_ptr<Client>> Find(const std::string& round,
                                               const std::string& contributor);
  void Learn(const std::string& round, const RoundTree& tree);
  void Forget(const std::string& round);

  // Whether the round is remembered, with leaves or without.
  bool Knows(const std::string& round) const;
  // Whether some round of the server had leaves, so that others may have them, too.
  bool IsRoot() const;

 private:
  struct Round {
    std::vector<Leaf> leaves;
    uint64_t used = 0;
  };

  // Ends the connections to leaves that no remembered round has.
  void CloseUnusedLocked();

  const ClientOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, Round> rounds_;
  uint64_t uses_ = 0;
  bool is_root_ = false;
  std::map<std::string, std::shared_ptr<Client>> by_address_;
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_LEAVES_H_
