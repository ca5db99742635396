// Rendezvous hashing (highest random weight): who belongs to which leaf of a tree of servers.
// Server and clients compute the same; tests/vectors/rendezvous.json has examples, and
// python/sparseagg/ _net/rendezvous.py is the same function.
#ifndef SPARSEAGG_BASE_RENDEZVOUS_H_
#define SPARSEAGG_BASE_RENDEZVOUS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sparseagg {

// The start of the weights of one contributor of one round, for all leaves.
//
//   weight := mix(FNV-1a of: round, 0, contributor, 0, leaf)       0 is a byte that no name has
//
// where mix is the last step of MurmurHash3 (64 bits).
class RendezvousHash {
 public:
  RendezvousHash(std::string_view round, std::string_view contributor);
  uint64_t Weight(std::string_view leaf) const;

 private:
  uint64_t start_;
};

// Returns the position of the leaf with the highest weight; of equal weights, the one with the
// least id. `id_of(i)` is the id of leaf i. REQUIRES: leaves > 0.
size_t ChooseLeaf(std::string_view round, std::string_view contributor, size_t leaves,
                  const std::function<std::string_view(size_t)>& id_of);

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_RENDEZVOUS_H_
