// The updates of a load: a pool of distinct ones; contributor i sends update i modulo the pool's
// size. So making updates costs no time while the load is measured, and memory does not grow with
// the number of updates.
#ifndef SPARSEAGG_CLIENT_CLI_LOAD_LOAD_UPDATES_H_
#define SPARSEAGG_CLIENT_CLI_LOAD_LOAD_UPDATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace sparseagg::cli {

class LoadUpdates {
 public:
  virtual ~LoadUpdates() = default;
  // The tensors of the round.
  virtual std::vector<TensorSpec> specs() const = 0;
  // The tensors that contributor `i` sends; valid while this lives.
  virtual std::vector<client::TensorView> update(uint64_t i) const = 0;
  // The file from which update `i` was read; empty if it was generated.
  virtual std::string file(uint64_t i) const = 0;
  // The exact sum of the updates 0 to count - 1, rounded once: the result that the server must
  // publish.
  virtual absl::StatusOr<std::vector<client::Tensor>> SumsOf(uint64_t count) const = 0;
};

// Returns how often update `i` of a pool is among the first `count` that are sent.
inline uint64_t TimesSent(uint64_t i, uint64_t count, uint64_t pool_size) {
  return (count - i + pool_size - 1) / pool_size;
}

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_LOAD_UPDATES_H_
