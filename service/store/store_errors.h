// The store's errors, each with its reason and what the caller can do.
#ifndef SPARSEAGG_SERVICE_STORE_STORE_ERRORS_H_
#define SPARSEAGG_SERVICE_STORE_STORE_ERRORS_H_

#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

// Returns RESOURCE_EXHAUSTED (STORE_FULL), with a time to retry after.
absl::Status StoreFull(
    std::string_view message = "the disk of the data directory is full; nothing was changed");
// Returns UNAVAILABLE (STORE_BUSY), with a time to retry after.
absl::Status StoreBusy(std::string_view message);
// Returns ABORTED (UPLOAD_LOST), with a time to retry after: the received part of a payload could
// not be synced and was deleted.
absl::Status UploadLost();
// Returns DATA_LOSS (STORE_CORRUPT).
absl::Status StoreCorrupt(std::string_view message);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_STORE_ERRORS_H_
