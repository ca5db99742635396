// A published round computed again from the updates that it kept, and compared bit by bit. The back
// end that does it may be the reference, which takes hundreds of bytes for a value: the result is
// cut into blocks, and the updates are read once for each group of them that fits in memory.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_VERIFY_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_VERIFY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "service/engine/engine.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

struct VerifyOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;               // that it may take
  std::function<bool()> cancelled = [] { return false; };  // asked before each step
};

// DATA_LOSS (RESULT_MISMATCH) when a bit of the result or of the set of updates differs; errors of
// Refold(), CANCELLED. REQUIRES: the store has kept the updates.
absl::StatusOr<Verification> Verify(const UpdateStore& store, const std::string& round,
                                    const PublishedResult& published, Backend& backend,
                                    Admission& aggregation, const VerifyOptions& options);

// The same of what the store has, on the reference back end; see Engine::VerifyRound(). Takes
// 64 MiB and the result twice, however few options.memory_bytes are.
absl::StatusOr<Verification> VerifyPublished(const UpdateStore& store, const std::string& round,
                                             const PublishedResult& result, Admission& aggregation,
                                             const VerifyOptions& options);

// Compares the stored result with the manifest. DATA_LOSS (RESULT_MISMATCH).
absl::Status CheckResultDigest(const PublishedResult& published);

// The updates of a round folded again, and every bit of the result compared with their sum; the set
// of updates with the manifest, where that has its digest. All of Verify() but the digest of the
// result, which stays empty.
absl::StatusOr<Verification> CompareWithUpdates(const UpdateStore& store, const std::string& round,
                                                const PublishedResult& result, Backend& backend,
                                                Admission& aggregation,
                                                const VerifyOptions& options);

// Whether a round is one of those, about `share` of all, that are computed again before they are
// published: the same rounds after a restart, and others under the name of a deleted one.
bool IsChosen(double share, std::string_view round,
              std::chrono::system_clock::time_point create_time);

// CompareWithUpdates() of a closed durable round before it is published, on the reference back end
// and in half of the aggregation memory that is free, 64 MiB at least. DATA_LOSS (RESULT_MISMATCH)
// says where the first difference is.
absl::Status VerifyUnpublished(const UpdateStore& store, const std::string& round,
                               const PublishedResult& result, Admission& aggregation,
                               std::function<bool()> cancelled);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_VERIFY_H_
