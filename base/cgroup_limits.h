// How much memory and how many processors this process may use, for defaults that are shares of
// them. In a container, or under systemd's MemoryMax= and CPUQuota=, that is less than the machine
// has. A server that relied on all of the memory would be killed by the kernel instead of being
// refused an allocation. A server with a thread for each processor would use up its quota early in
// each period and be stopped for the rest of it, with all locks that its threads hold.
#ifndef SPARSEAGG_BASE_CGROUP_LIMITS_H_
#define SPARSEAGG_BASE_CGROUP_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace sparseagg {

// The paths where Linux describes control groups.
struct CgroupPaths {
  std::string membership = "/proc/self/cgroup";  // which groups the process is in
  std::string root = "/sys/fs/cgroup";           // where their files are
};

// Returns the lowest memory limit, in bytes, of the process's own control group and of all groups
// that contain it, of version 2 (memory.max) and of version 1 (memory.limit_in_bytes). Returns
// nullopt when there is none. Files that are missing or hold no number set no limit. Thread-safe.
std::optional<uint64_t> CgroupMemoryBytes(const CgroupPaths& paths = {});

// Returns the lowest CPU quota of the same groups (cpu.max; cpu.cfs_quota_us / cpu.cfs_period_us),
// in processors, rounded up. Returns nullopt when there is none. Thread-safe.
std::optional<uint32_t> CgroupCpus(const CgroupPaths& paths = {});

// Returns the machine's memory, or the limit of a control group if that is less. Thread-safe.
uint64_t AvailableMemoryBytes(const CgroupPaths& paths = {});

// Returns the number of processors that the process may run on, or the quota of a control group if
// that is less; at least 1. Thread-safe.
uint32_t AvailableCpus(const CgroupPaths& paths = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_CGROUP_LIMITS_H_
