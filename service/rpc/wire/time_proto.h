// Converts times between the engine's types and protobuf messages.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_TIME_PROTO_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_TIME_PROTO_H_

#include <algorithm>
#include <chrono>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace sparseagg {

inline void SetTimestamp(std::chrono::system_clock::time_point time,
                         google::protobuf::Timestamp* out) {
  const auto since_epoch = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  out->set_seconds(seconds.count());
  out->set_nanos(static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch - seconds).count()));
}

inline void SetDuration(std::chrono::milliseconds time, google::protobuf::Duration* out) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  out->set_seconds(seconds.count());
  out->set_nanos(static_cast<int32_t>(std::chrono::nanoseconds(time - seconds).count()));
}

// Times beyond the range of the clock's type become the nearest one in it.
inline std::chrono::system_clock::time_point ToTime(const google::protobuf::Timestamp& stamp) {
  constexpr int64_t kSecondsMax = 9'000'000'000;  // the year 2255
  const auto seconds = std::chrono::seconds(std::clamp<int64_t>(stamp.seconds(), 0, kSecondsMax));
  const auto nanos = std::chrono::nanoseconds(std::clamp(stamp.nanos(), 0, 999'999'999));
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(seconds + nanos));
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_TIME_PROTO_H_
