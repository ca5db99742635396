// Copies values that a payload holds in the same form as memory.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_RAW_VALUES_H_
#define SPARSEAGG_SPARSE_ENCODINGS_RAW_VALUES_H_

#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"
#include "sparse/encoding.h"
#include "sparse/encodings/unit_cutter.h"
#include "sparse/streaming.h"

namespace sparseagg {

// Takes them in pieces of any length, in order. Large f32 arrays are copied with non-temporal
// stores: other data would replace them in the caches before they are read.
class RawValues {
 public:
  RawValues(const EncodedHeader& header, void* out)
      : value_bytes_(SizeOf(header.value_type)),
        streams_(header.value_type == ValueType::kF32 && header.values_bytes >= kStreamBytesMin),
        out_(static_cast<char*>(out)),
        cutter_(sizeof(float)) {}

  absl::Status Append(std::string_view bytes) {
    if (!streams_) {
      if (!bytes.empty()) std::memcpy(out_ + bytes_, bytes.data(), bytes.size());
      bytes_ += bytes.size();
      return absl::OkStatus();
    }
    return cutter_.Feed(bytes, [this](const char* from, uint64_t count) {
      const bool finite = StreamFloats(from, count, reinterpret_cast<float*>(out_ + bytes_));
      if (finite && finite_ == values()) finite_ += count;
      bytes_ += count * sizeof(float);
      return absl::OkStatus();
    });
  }

  // Number of values copied so far, and of those, from the front, that are known to be finite.
  uint64_t values() const { return bytes_ / value_bytes_; }
  uint64_t finite_values() const { return finite_; }

 private:
  const uint64_t value_bytes_;
  const bool streams_;
  char* const out_;
  UnitCutter cutter_;
  uint64_t bytes_ = 0;
  uint64_t finite_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_RAW_VALUES_H_
