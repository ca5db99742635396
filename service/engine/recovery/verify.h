// Computes a round again from its stored updates and compares the result bit by bit. The reference
// back end takes hundreds of bytes for each value; therefore the result is divided into blocks, and
// the updates are read once for each group of blocks that fits in memory.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_VERIFY_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_VERIFY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "service/engine/limits.h"
#include "service/engine/memory/admission.h"
#include "service/engine/types.h"

namespace sparseagg {

struct VerifyOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;               // memory that the verification may take
  std::function<bool()> cancelled = [] { return false; };  // called before each step
};

// Verifies the manifest and the result of a published round. Errors: DATA_LOSS (RESULT_MISMATCH) if
// a bit of the result or of the set of updates differs; CANCELLED; those of CompareWithUpdates().
// REQUIRES: the store has kept the updates.
absl::StatusOr<Verification> Verify(const UpdateStore& store, const std::string& round,
                                    const PublishedResult& published, Backend& backend,
                                    Admission& aggregation, const VerifyOptions& options);

// Verifies the stored result on the reference back end; see Engine::VerifyRound(). Takes at least
// 64 MiB and twice the result, even if options.memory_bytes is less.
absl::StatusOr<Verification> VerifyPublished(const UpdateStore& store, const std::string& round,
                                             const PublishedResult& result, Admission& aggregation,
                                             const VerifyOptions& options);

// Returns DATA_LOSS (RESULT_MISMATCH) if the result does not have the digest of its manifest.
absl::Status CheckResultDigest(const PublishedResult& published);

// Folds the updates of a round again and compares every bit of the result with their sum. Compares
// the set of updates with the manifest if that has its digest. The returned result_digest is empty.
absl::StatusOr<Verification> CompareWithUpdates(const UpdateStore& store, const std::string& round,
                                                const PublishedResult& result, Backend& backend,
                                                Admission& aggregation,
                                                const VerifyOptions& options);

// Returns whether a round is in the sample, about `share` of all rounds, that is verified before
// publication. The choice is the same after a restart, and independent for a new round with the
// name of a deleted one.
bool IsSampled(double share, std::string_view round,
               std::chrono::system_clock::time_point create_time);

// Runs CompareWithUpdates() for a closed durable round before it is published, on the reference
// back end and in half of the free aggregation memory, but at least 64 MiB. DATA_LOSS
// (RESULT_MISMATCH) names the first difference.
absl::Status VerifyUnpublished(const UpdateStore& store, const std::string& round,
                               const PublishedResult& result, Admission& aggregation,
                               std::function<bool()> cancelled);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_VERIFY_H_
