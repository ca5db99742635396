// An update in chunks that was counted before.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_COUNTED_UPLOAD_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_COUNTED_UPLOAD_H_

#include <memory>

#include "service/engine/round/round.h"

namespace sparseagg {

// An upload at its end, whose Finish() answers with the first receipt. Without its bytes a counted
// update is recognised by its id and weight: ALREADY_EXISTS (CONTRIBUTOR_ALREADY_COUNTED),
// INVALID_ARGUMENT (DIGEST_CONFLICT).
absl::StatusOr<std::shared_ptr<Upload>> ResumeCounted(std::shared_ptr<Round> round,
                                                      const UpdateRecord& record,
                                                      const UpdateHeader& header,
                                                      uint64_t total_bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_COUNTED_UPLOAD_H_
