// What a root asks of a leaf: an ordinary server, which has a round of the same name.
#ifndef SPARSEAGG_SERVICE_TREE_LEAF_LINK_H_
#define SPARSEAGG_SERVICE_TREE_LEAF_LINK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/result/part_reader.h"
#include "service/engine/round_state.h"
#include "service/engine/types.h"

namespace sparseagg {

struct LeafRound {
  RoundState state = RoundState::kOpen;
  uint64_t contributors = 0;
  LeafStart start;  // without an id: of a version that does not tell
  RoundTree tree;
  bool may_be_restored = false;  // kAborted for lack of memory; its updates are kept
};

// The round of an owner.
struct OwnerRound {
  RoundState state = RoundState::kOpen;
  std::string failure;
  std::vector<uint64_t> nnz;  // [tensors], of the result
  Manifest manifest;          // of these fields: counts and digests; set once it is published
};

struct LeafPartial {
  uint64_t bytes = 0;
  std::string digest;  // 32 bytes
};

// Returns whether nobody answered, so that the same call may succeed later.
inline bool IsSilence(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

// One attempt for each call; UNAVAILABLE and DEADLINE_EXCEEDED without an answer. Thread-safe.
class LeafLink {
 public:
  virtual ~LeafLink() = default;
  // Asks for nothing but an answer.
  virtual absl::Status Greet() = 0;
  virtual absl::StatusOr<LeafRound> Create(const CreateRoundArgs& args) = 0;
  virtual absl::StatusOr<LeafRound> Get(const std::string& name) = 0;
  virtual absl::StatusOr<LeafRound> Seal(const std::string& name) = 0;
  virtual absl::Status Abort(const std::string& name) = 0;
  // Aborts it also if it is published, because the own round ends without it.
  virtual absl::Status GiveUp(const std::string& name) = 0;
  virtual absl::Status Delete(const std::string& name) = 0;
  // Reads the partial aggregate of a published round, or with `rows` the one of these. `on_header`
  // is called first, and returns the offset of the first byte that is needed; then `on_bytes` gets
  // the bytes from there on, in order. An error of either ends the call. `likely` is the offset
  // that `on_header` will probably return: after another one, bytes that were under way are lost.
  virtual absl::Status ReadPartial(
      const std::string& name, const std::optional<RowRange>& rows, uint64_t likely,
      const std::function<absl::StatusOr<uint64_t>(const LeafPartial&)>& on_header,
      const std::function<absl::Status(uint64_t offset, std::string_view bytes)>& on_bytes) = 0;
  // Of an owner; UNIMPLEMENTED if the link reaches none.
  virtual absl::StatusOr<OwnerRound> GetOwned(const std::string& name);
  virtual absl::StatusOr<Verification> Verify(const std::string& name);
  // Returns at once; calls `done` once, from any thread, also after the link is destroyed. The name
  // in the request is not used.
  virtual void ReadResult(const std::string& name, const v1::ReadResultRequest& request,
                          PartReader::Done done);
  // Makes calls in progress, and all later ones, fail soon.
  virtual void Cancel() {}
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_LEAF_LINK_H_
