// A back end over several devices of one kind. An aggregator keeps a partial state on each device
// that it uses; the states meet when the result is made.
//
//   Accumulate -> device with the fewest queued bytes, for a batch -> ... -> Absorb all into one
//
// Below a batch a round stays on one device. A device that is lost gets no further updates, and new
// aggregators leave it out.
#ifndef SPARSEAGG_SPARSE_DEVICE_GROUP_H_
#define SPARSEAGG_SPARSE_DEVICE_GROUP_H_

#include <memory>
#include <vector>

#include "sparse/backend.h"

namespace sparseagg {

// `devices`: at least one, each a back end on one device, with the same name and plans. They take
// updates that any of them has staged. To survive the loss of one, each is a back end with a
// fallback (sparse/failover_backend.h).
std::unique_ptr<Backend> MakeDeviceGroup(std::vector<std::unique_ptr<Backend>> devices);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_DEVICE_GROUP_H_
