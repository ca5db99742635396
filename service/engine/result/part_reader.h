// Reads the rows of a divided result, which other servers have.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_PART_READER_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_PART_READER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "service/engine/round_tree.h"

namespace sparseagg::v1 {
class ReadResultRequest;
class ReadResultResponse;
}  // namespace sparseagg::v1

namespace sparseagg {

// Thread-safe.
class PartReader {
 public:
  using Done = std::function<void(absl::StatusOr<v1::ReadResultResponse>)>;

  virtual ~PartReader() = default;
  // Asks the owner of a part for a piece of its result, and calls `done` once, from any thread. The
  // name in the request is not used. Errors besides those of ReadResult: UNAVAILABLE
  // (OWNER_UNAVAILABLE) if the owner does not answer, DATA_LOSS (OWNER_LOST) if it has no longer
  // the part.
  virtual void Read(const ResultPart& part, const v1::ReadResultRequest& request, Done done) = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_PART_READER_H_
