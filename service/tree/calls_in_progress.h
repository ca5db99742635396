// The calls of a link that are in progress, so that they can be ended when the server stops.
#ifndef SPARSEAGG_SERVICE_TREE_CALLS_IN_PROGRESS_H_
#define SPARSEAGG_SERVICE_TREE_CALLS_IN_PROGRESS_H_

#include <grpcpp/client_context.h>

#include <mutex>
#include <set>

#include "absl/status/status.h"

namespace sparseagg {

inline absl::Status ServerStops() { return absl::CancelledError("the server is stopping"); }

// Thread-safe.
class CallsInProgress {
 public:
  // Returns whether the call may begin.
  bool Enter(grpc::ClientContext& context) {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) contexts_.insert(&context);
    return !cancelled_;
  }
  // Returns whether Cancel() was called.
  bool Leave(grpc::ClientContext& context) {
    const std::lock_guard lock(mutex_);
    contexts_.erase(&context);
    return cancelled_;
  }
  void Cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }

 private:
  std::mutex mutex_;
  bool cancelled_ = false;
  std::set<grpc::ClientContext*> contexts_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_CALLS_IN_PROGRESS_H_
