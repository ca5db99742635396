// Converts the selections of a pull to the API's form: indices per dimension.
#ifndef SPARSEAGG_CLIENT_SELECTIONS_H_
#define SPARSEAGG_CLIENT_SELECTIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "client/client.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::client {

// INVALID_ARGUMENT: UNKNOWN_TENSOR when the round has no such tensor, INVALID_SELECTION when it is
// dense, INDEX_OUT_OF_RANGE for a row beyond its shape.
absl::Status AddSelections(const RoundInfo& round, const std::vector<Selection>& selections,
                           v1::GetAggregateRequest& request);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_SELECTIONS_H_
