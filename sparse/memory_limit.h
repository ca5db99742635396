// How much memory this process may take, for defaults that are shares of it. In a container, or
// under systemd's MemoryMax=, that is less than the machine has: a server that counted on all of it
// would be killed by the kernel, not refused an allocation.
#ifndef SPARSEAGG_SPARSE_MEMORY_LIMIT_H_
#define SPARSEAGG_SPARSE_MEMORY_LIMIT_H_

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

// The machine's memory, or the limit of a control group where that is less. Thread-safe.
uint64_t AvailableMemoryBytes(const CgroupPlaces& places = {});

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_MEMORY_LIMIT_H_
