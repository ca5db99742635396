// How much memory and how many processors this process may take, for defaults that are shares of
// them. In a container, or under systemd's MemoryMax= and CPUQuota=, that is less than the machine
// has: a server that counted on all of the memory would be killed by the kernel, not refused an
// allocation; one with a thread for each processor would use its quota up in a part of each period,
// and stand still, with whatever locks its threads hold, for the rest of it.
#ifndef SPARSEAGG_BASE_CGROUP_LIMITS_H_
#define SPARSEAGG_BASE_CGROUP_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace sparseagg {

// Where Linux tells of control groups.
struct CgroupPlaces {
  std::string membership = "/proc/self/cgroup";  // which groups the process is in
  std::string root = "/sys/fs/cgroup";           // where their files are
};

// The least limit in bytes of the process's own group and of all groups around it, of version 2
// (memory.max) and of version 1 (memory.limit_in_bytes) of control groups. nullopt where there is
// none. Files that are missing or hold no number set no limit. Thread-safe.
std::optional<uint64_t> CgroupMemoryBytes(const CgroupPlaces& places = {});

// The least CPU quota of the same groups (cpu.max; cpu.cfs_quota_us by cpu.cfs_period_us), in
// processors, rounded up to whole ones. nullopt where there is none. Thread-safe.
std::optional<uint32_t> CgroupCpus(const CgroupPlaces& places = {});

// The machine's memory, or the limit of a control group where that is less. Thread-safe.
uint64_t AvailableMemoryBytes(const CgroupPlaces& places = {});

// The processors that the process may run on, or the quota of a control group where that is less;
// at least 1. Thread-safe.
uint32_t AvailableCpus(const CgroupPlaces& places = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_CGROUP_LIMITS_H_
