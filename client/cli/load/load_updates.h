// What a load sends: a pool of distinct updates; contributor i sends update i modulo its size. So
// an update costs no time to make while the load is measured, and no memory that grows with it.
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
  // Of the round that they are for.
  virtual std::vector<TensorSpec> specs() const = 0;
  // The tensors of contributor `i`; valid while this lives.
  virtual std::vector<client::TensorView> update(uint64_t i) const = 0;
  // The file that update `i` was read from; empty when it was made.
  virtual std::string file(uint64_t i) const = 0;
  // The exact sum of the updates 0 to count - 1, rounded once, as the server has to publish it.
  virtual absl::StatusOr<std::vector<client::Tensor>> SumsOf(uint64_t count) const = 0;
};

// How often update `i` of a pool is among the first `count` that are sent.
inline uint64_t TimesSent(uint64_t i, uint64_t count, uint64_t pool_size) {
  return (count - i + pool_size - 1) / pool_size;
}

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_LOAD_UPDATES_H_
