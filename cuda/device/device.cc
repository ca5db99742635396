#include "cuda/device/device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::gpu {

absl::Status Device::health() const {
  const std::lock_guard lock(mutex_);
  if (lost_.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, "GPU_LOST",
                   absl::StrCat("GPU ", ordinal_, " failed and is not used any more: ", lost_));
}

absl::Status Device::Lose(std::string what) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = std::move(what);
  }
  return health();
}

absl::Status Device::OutOfMemory(const std::string& name, const char* what) const {
  return MakeError(
      absl::StatusCode::kResourceExhausted, "GPU_OUT_OF_MEMORY",
      absl::StrCat("tensor \"", name, "\": GPU ", ordinal_, " has no memory left: ", what));
}

absl::Status Device::NotForIt(const std::string& name, const char* what) {
  return MakeError(absl::StatusCode::kResourceExhausted, "GPU_REFUSED",
                   absl::StrCat("tensor \"", name, "\": the GPU does not reduce it: ", what));
}

absl::Status Device::HostOutOfMemory(const std::string& name) {
  return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                   absl::StrCat("tensor \"", name, "\": no memory left to reduce it"));
}

}  // namespace sparseagg::gpu
