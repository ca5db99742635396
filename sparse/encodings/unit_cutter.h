// Cuts bytes that arrive in pieces of any length into whole units of a fixed size.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_UNIT_CUTTER_H_
#define SPARSEAGG_SPARSE_ENCODINGS_UNIT_CUTTER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"
#include "base/status.h"
#include "sparse/types.h"

namespace sparseagg {

class UnitCutter {
 public:
  // REQUIRES: unit <= kUnitBytesMax.
  explicit UnitCutter(size_t unit) : unit_(unit) {}

  // Calls take(const char* units, uint64_t count), which returns a Status, for the units that are
  // complete now; keeps the rest for the next call. Units need not be aligned.
  template <class Take>
  absl::Status Feed(std::string_view bytes, Take take) {
    if (kept_ > 0) {
      const size_t more = std::min(unit_ - kept_, bytes.size());
      std::memcpy(kept_bytes_.data() + kept_, bytes.data(), more);
      bytes.remove_prefix(more);
      kept_ += more;
      if (kept_ < unit_) return absl::OkStatus();
      kept_ = 0;
      SPARSEAGG_RETURN_IF_ERROR(take(kept_bytes_.data(), uint64_t{1}));
    }
    const uint64_t whole = bytes.size() / unit_;
    if (whole > 0) SPARSEAGG_RETURN_IF_ERROR(take(bytes.data(), whole));
    bytes.remove_prefix(whole * unit_);
    kept_ = bytes.size();
    if (kept_ > 0) std::memcpy(kept_bytes_.data(), bytes.data(), kept_);
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kUnitBytesMax = kRankMax * sizeof(uint64_t);

  const size_t unit_;
  size_t kept_ = 0;
  std::array<char, kUnitBytesMax> kept_bytes_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_UNIT_CUTTER_H_
