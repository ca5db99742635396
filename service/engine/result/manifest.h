// Computes the manifest: what a published result was computed from, in a form that can be checked
// with the receipts and the result alone.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_MANIFEST_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_MANIFEST_H_

#include <span>
#include <string>
#include <vector>

#include "service/engine/types.h"

namespace sparseagg {

// Returns the part of a manifest that follows from the accepted updates and the result:
// contributors, total_weight, updates_digest, result_digest. The order of `records` does not
// matter.
Manifest DescribeResult(std::vector<UpdateRecord> records, const PublishedResult& result);

// Sorts records as a manifest has them: by contributor, then update_id and digest.
void SortForManifest(std::vector<UpdateRecord>& records);

// Returns the SHA-256 over contributor, update_id and digest of every record, each as u64 length
// and bytes, in the given order.
std::string UpdatesDigest(std::span<const UpdateRecord> records);
// Returns the same digest of the records in the order of a manifest, whatever their given order.
std::string DigestOfSet(std::vector<UpdateRecord> records);

// Returns the SHA-256 over, for each tensor: u64 nnz, the nnz rows as u64, u64 length of the values
// in bytes, the values. For rounds of durability `memory`, checksums replace the arrays
// (service/store/checksums/array_sum.h): the string "xxh3", then for each array u64 length in
// bytes, u64 XXH3 (0 if the length is 0). Of a result that is a partial aggregate, its own digest;
// of a divided one, that of its manifest, because the rows are elsewhere.
std::string ResultDigest(const PublishedResult& result);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_MANIFEST_H_
