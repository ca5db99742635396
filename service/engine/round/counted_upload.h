// Resumes the upload of an update that was already counted.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_COUNTED_UPLOAD_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_COUNTED_UPLOAD_H_

#include <memory>

#include "service/engine/round/round.h"

namespace sparseagg {

// Returns an upload at its end whose Finish() returns the first receipt. Since its bytes are not
// sent again, the update is recognised by its update_id and weight. Errors: ALREADY_EXISTS
// (CONTRIBUTOR_ALREADY_COUNTED) for another update_id, INVALID_ARGUMENT (DIGEST_CONFLICT) for
// another weight.
absl::StatusOr<std::shared_ptr<Upload>> ResumeCounted(std::shared_ptr<Round> round,
                                                      const UpdateRecord& record,
                                                      const UpdateHeader& header,
                                                      uint64_t total_bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_COUNTED_UPLOAD_H_
