// How long the states of a connection may take, and the error of a request that took longer.
#ifndef SPARSEAGG_SERVICE_HTTP_TIME_LIMITS_H_
#define SPARSEAGG_SERVICE_HTTP_TIME_LIMITS_H_

#include <chrono>
#include <cstddef>

#include "absl/status/status.h"
#include "service/engine/limits.h"

namespace sparseagg {

inline constexpr std::chrono::milliseconds kHandshakeTime{10'000};
inline constexpr std::chrono::milliseconds kHeadTime{10'000};    // from its first byte to its last
inline constexpr std::chrono::milliseconds kIdleTime{120'000};   // from an answer to a request
inline constexpr std::chrono::milliseconds kGoodbyeTime{5'000};  // to read a last answer
// Between two looks at a client that may have gone, and for a read that was cancelled to end.
inline constexpr std::chrono::milliseconds kLookTime{1'000};

// A client that sends nothing of its body for so long is too slow, whatever it sent before.
std::chrono::milliseconds BodyWaitTime(const Limits& limits);
// For the client to read an answer with a body of so many bytes.
std::chrono::milliseconds AnswerTime(const Limits& limits, size_t bytes);

inline constexpr int kRequestTimeout = 408;
inline constexpr char kHeadTooSlow[] = "the head of the request took more than 10 s";
inline constexpr char kBodyTooSlow[] =
    "the body came more slowly than upload-rate-min over upload-rate-window-ms";
absl::Status TooSlow(const char* what);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_TIME_LIMITS_H_
