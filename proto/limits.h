// Limits of the protocol that both client and server observe.
#ifndef SPARSEAGG_PROTO_LIMITS_H_
#define SPARSEAGG_PROTO_LIMITS_H_

#include <cstdint>

namespace sparseagg {

inline constexpr uint64_t kBatchUpdatesMax = 1000;  // updates in one UpdateBatch

// The task service (tasks.proto).
inline constexpr uint64_t kTaskGroupsPerCallMax = 100;
inline constexpr uint64_t kTasksPerGroupMax = 100'000;
inline constexpr uint64_t kTaskContributorsPerCallMax = 50'000;
inline constexpr uint64_t kTaskPercentOfGoalMax = 10'000;
inline constexpr uint64_t kTasksPerCallMax = 1'000'000;
inline constexpr uint64_t kTaskPayloadBytesMax = uint64_t{1} << 20;  // of one group
inline constexpr uint64_t kTaskAttemptsMax = 1000;
inline constexpr uint64_t kTaskFailureBytesMax = 1000;    // FailTaskRequest.reason
inline constexpr uint64_t kRequiredCapabilitiesMax = 16;  // of one group
inline constexpr uint64_t kWorkerCapabilitiesMax = 64;
inline constexpr uint64_t kPoolsPerAcquireMax = 16;
inline constexpr uint64_t kTasksPerAcquireMax = 100;
inline constexpr uint64_t kAcquirePayloadBytesMax = uint64_t{3} << 20;  // of one answer
inline constexpr uint64_t kLeasesPerRenewMax = 100;
inline constexpr uint64_t kNamesPerCancelMax = 1000;

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_LIMITS_H_
