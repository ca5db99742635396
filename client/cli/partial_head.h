// The head of a partial aggregate (docs/partials.md), for people: what it is of and who is in it.
#ifndef SPARSEAGG_CLIENT_CLI_PARTIAL_HEAD_H_
#define SPARSEAGG_CLIENT_CLI_PARTIAL_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg::cli {

struct PartialHead {
  struct Tensor {
    std::string name;
    std::string op;
    std::string value_type;
    std::vector<int64_t> dense_shape;
    uint32_t sparse_dim = 0;
    uint64_t entries = 0;
    uint64_t slices = 0;
  };
  uint32_t version = 0;
  uint64_t contributors = 0;
  bool named = false;
  std::vector<Tensor> tensors;
  std::vector<std::string> covered;  // the contributors, ascending; if named
  std::string digest;                // 32 bytes, as written: not computed again
};

// INVALID_ARGUMENT (INVALID_PARTIAL) for bytes that do not begin as a partial aggregate does. Only
// a server checks the rest.
absl::StatusOr<PartialHead> ReadPartialHead(std::string_view bytes);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_PARTIAL_HEAD_H_
