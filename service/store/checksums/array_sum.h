// A checksum for the large arrays of an update: their length and XXH3 of 64 bits. It is compared
// with that of a resend under the same update_id, and tells it from another update (2^-64 of them
// go unseen) at a small part of the time that SHA-256 takes. It is not made against somebody who
// looks for two updates with the same sum.
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
  uint64_t xxh3 = 0;  // without a seed; 0 of an array without bytes
};

// Of one array after the other, each in pieces of any length, in order.
class ArraySummer {
 public:
  ArraySummer();
  void Append(std::string_view piece);
  // Of what came since the last one.
  ArraySum Finish();

 private:
  static constexpr size_t kStateBytes = 576;
  alignas(64) std::byte state_[kStateBytes];  // of the library
  uint64_t bytes_ = 0;
};

ArraySum SumOf(std::string_view array);

// 32 bytes that tell byte strings apart as ArraySum does: XXH3 of 128 bits, with two seeds.
std::string QuickDigest(std::string_view bytes);

// Length and XXH3, as u64 each.
template <class Digest>
void HashSum(const ArraySum& sum, DigestInput<Digest>& digest) {
  digest.U64(sum.bytes).U64(sum.xxh3);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_ARRAY_SUM_H_
