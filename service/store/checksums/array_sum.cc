#include "service/store/checksums/array_sum.h"

#include SPARSEAGG_XXHASH_HEADER  // CMakeLists.txt

#include <utility>

namespace sparseagg {
namespace {

XXH3_state_t* State(std::byte* state) { return reinterpret_cast<XXH3_state_t*>(state); }

}  // namespace

ArraySummer::ArraySummer() {
  static_assert(sizeof(XXH3_state_t) == kStateBytes && alignof(XXH3_state_t) <= 64);
  XXH3_64bits_reset(State(state_));
}

void ArraySummer::Append(std::string_view piece) {
  bytes_ += piece.size();
  XXH3_64bits_update(State(state_), piece.data(), piece.size());
}

ArraySum ArraySummer::Finish() {
  if (bytes_ == 0) return {};
  const ArraySum sum{std::exchange(bytes_, 0), XXH3_64bits_digest(State(state_))};
  XXH3_64bits_reset(State(state_));
  return sum;
}

ArraySum SumOf(std::string_view array) {
  if (array.empty()) return {};
  return {array.size(), XXH3_64bits(array.data(), array.size())};
}

std::string QuickDigest(std::string_view bytes) {
  std::string digest;
  for (const uint64_t seed : {0, 1}) {
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
    digest.append(reinterpret_cast<const char*>(hash.digest), sizeof(hash.digest));
  }
  return digest;
}

}  // namespace sparseagg
