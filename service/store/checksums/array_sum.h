// A checksum for the large arrays of an update: length and 64-bit XXH3. It is compared with the
// checksum of a resend under the same update_id, and detects a different update (all but 2^-64 of
// them) in a small part of the time of SHA-256. It is not cryptographic: it does not protect
// against a sender who searches for two updates with the same checksum.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_ARRAY_SUM_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_ARRAY_SUM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "service/store/checksums/digest.h"

namespace sparseagg {

struct ArraySum {
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;  // without a seed; 0 for an empty array
};

// Computes the checksums of several arrays one after the other, each from pieces of any length, in
// order.
class ArraySummer {
 public:
  ArraySummer();
  void Append(std::string_view piece);
  // Returns the checksum of the bytes since the last Finish().
  ArraySum Finish();

 private:
  static constexpr size_t kStateBytes = 576;
  alignas(64) std::byte state_[kStateBytes];  // XXH3_state_t
  uint64_t bytes_ = 0;
};

ArraySum SumOf(std::string_view array);

// Returns a non-cryptographic digest of 32 bytes: 128-bit XXH3 with two seeds.
std::string QuickDigest(std::string_view bytes);

// Adds length and XXH3 to `digest`, as u64 each.
template <class Digest>
void HashSum(const ArraySum& sum, DigestInput<Digest>& digest) {
  digest.U64(sum.bytes).U64(sum.xxh3);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_ARRAY_SUM_H_
