#include "service/tree/leaf_link.h"

#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {
namespace {

absl::Status NoOwner() { return absl::UnimplementedError("this link reaches no owner"); }

}  // namespace

absl::StatusOr<OwnerRound> LeafLink::GetOwned(const std::string& /*name*/) { return NoOwner(); }

absl::StatusOr<Verification> LeafLink::Verify(const std::string& /*name*/) { return NoOwner(); }

void LeafLink::ReadResult(const std::string& /*name*/, const v1::ReadResultRequest& /*request*/,
                          // Links that reach an owner keep it.
                          PartReader::Done done) {  // NOLINT(performance-unnecessary-value-param)
  done(NoOwner());
}

}  // namespace sparseagg
