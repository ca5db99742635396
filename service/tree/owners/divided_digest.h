// Reads a divided result once, piece by piece, to hash it.
#ifndef SPARSEAGG_SERVICE_TREE_OWNERS_DIVIDED_DIGEST_H_
#define SPARSEAGG_SERVICE_TREE_OWNERS_DIVIDED_DIGEST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/types.h"

namespace sparseagg {

// Returns a result without rows, which `reader` reads from `parts`.
absl::StatusOr<std::shared_ptr<const PublishedResult>> MakeDivided(
    const RoundSpec& spec, std::vector<ResultPart> parts, std::shared_ptr<PartReader> reader);

// Returns what ResultDigest() would return if the rows were here. Waits for the owners; two pieces
// are in memory at a time. Errors: those of PartReader; CANCELLED if `cancelled`, which is called
// before each piece, returns true.
absl::StatusOr<std::string> DigestOfDivided(const std::shared_ptr<const PublishedResult>& result,
                                            const std::function<bool()>& cancelled);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_OWNERS_DIVIDED_DIGEST_H_
