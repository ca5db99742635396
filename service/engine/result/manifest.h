// What a published result was computed from, in a form that anyone can check who holds the receipts
// and the result.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_MANIFEST_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_MANIFEST_H_

#include <span>
#include <string>
#include <vector>

#include "service/engine/engine.h"

namespace sparseagg {

// The part of a manifest that follows from the accepted updates and the result: contributors,
// total_weight, updates_digest, result_digest. A pure function of the set of records: their order
// does not matter.
Manifest DescribeResult(std::vector<UpdateRecord> records, const PublishedResult& result);

// SHA-256 over contributor, update_id and digest of every record, each as u64 length and bytes; in
// the order given.
std::string UpdatesDigest(std::span<const UpdateRecord> records);
// The same in the order that a manifest has them in, whatever the one given is.
std::string DigestOfSet(std::vector<UpdateRecord> records);

// SHA-256 over, for each tensor: u64 nnz, the nnz rows as u64, u64 length of the values in bytes,
// the values. Of a round in memory the arrays are hashed by their sums
// (service/store/checksums/array_sum.h): the string "xxh3", then for each array u64 length in
// bytes, u64 XXH3 (0 where the length is).
std::string ResultDigest(const PublishedResult& result);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_MANIFEST_H_
