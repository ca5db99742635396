#include "base/cgroup_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sparseagg {
namespace {

// Returns the number of processors that the process may run on, which cpusets and taskset reduce.
uint32_t UsableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) {
    return static_cast<uint32_t>(CPU_COUNT(&set));
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);  // there are more than a cpu_set_t holds
  return online > 0 ? static_cast<uint32_t>(online) : 1;
}

// Returns the first line of a file; "" when there is none.
std::string FirstLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns nullopt for "max" and anything else that is not a number, and for 0, under which nothing
// could run.
std::optional<uint64_t> ParseLimit(std::string_view text) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) || number == 0) {
    return std::nullopt;
  }
  return number;
}

std::optional<uint64_t> LowerOf(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

// Reads the limit of the group in `folder`.
using LimitReader = std::optional<uint64_t> (*)(const std::string& folder);

// Returns the lowest limit of the groups from `mount` down to `group`, a path below it. In a
// container without a namespace of control groups the path is the host's, and only `mount` itself,
// which is the container's group, exists: the others have no file. A ".." leads to a group outside
// of the namespace.
std::optional<uint64_t> LowestOnPath(const std::string& mount, const std::string& group,
                                     LimitReader limit) {
  std::string folder = mount;
  std::optional<uint64_t> lowest = limit(folder);
  const std::vector<std::string> names = absl::StrSplit(group, '/', absl::SkipEmpty());
  for (const std::string& name : names) {
    if (name == "..") break;
    absl::StrAppend(&folder, "/", name);
    lowest = LowerOf(lowest, limit(folder));
  }
  return lowest;
}

// The groups that the process is in: of version 2, and of version 1 for a controller. A line of the
// file is NUMBER:CONTROLLERS:GROUP. Version 2 has the number 0 and no controllers:
//   0::/kubepods.slice/pod7.slice/crio-1.scope
//   4:memory:/docker/5f0c
struct Membership {
  std::string v2_group;
  std::string v1_group;
};
Membership ReadMembership(const CgroupPaths& paths, std::string_view controller) {
  Membership found;
  std::ifstream membership(paths.membership);
  for (std::string line; std::getline(membership, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) found.v2_group = parts[2];
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      found.v1_group = parts[2];
    }
  }
  return found;
}

// Returns the lowest limit of all groups of the process. The mount itself counts even when its
// group is unknown: in a container it is the container's group.
std::optional<uint64_t> LowestOfGroups(const CgroupPaths& paths, const std::string& controller,
                                       LimitReader v2, LimitReader v1) {
  const Membership groups = ReadMembership(paths, controller);
  return LowerOf(LowestOnPath(paths.root, groups.v2_group, v2),
                 LowestOnPath(absl::StrCat(paths.root, "/", controller), groups.v1_group, v1));
}

// Converts a quota of each period, both in microseconds, to processors, rounded up.
std::optional<uint64_t> CpusFromQuota(std::optional<uint64_t> quota,
                                      std::optional<uint64_t> period) {
  if (!quota.has_value() || !period.has_value()) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page)
                               : uint64_t{1} << 32;
}

}  // namespace

std::optional<uint64_t> CgroupMemoryBytes(const CgroupPaths& paths) {
  return LowestOfGroups(
      paths, "memory",
      [](const std::string& folder) { return ParseLimit(FirstLineOf(folder + "/memory.max")); },
      [](const std::string& folder) {
        return ParseLimit(FirstLineOf(folder + "/memory.limit_in_bytes"));
      });
}

std::optional<uint32_t> CgroupCpus(const CgroupPaths& paths) {
  const auto v2 = [](const std::string& folder) -> std::optional<uint64_t> {
    const std::vector<std::string> parts = absl::StrSplit(FirstLineOf(folder + "/cpu.max"), ' ');
    if (parts.size() != 2) return std::nullopt;
    return CpusFromQuota(ParseLimit(parts[0]), ParseLimit(parts[1]));
  };
  const auto v1 = [](const std::string& folder) {
    return CpusFromQuota(ParseLimit(FirstLineOf(folder + "/cpu.cfs_quota_us")),
                         ParseLimit(FirstLineOf(folder + "/cpu.cfs_period_us")));
  };
  const std::optional<uint64_t> cpus = LowestOfGroups(paths, "cpu", v2, v1);
  if (!cpus.has_value()) return std::nullopt;
  return static_cast<uint32_t>(std::min<uint64_t>(*cpus, std::numeric_limits<uint32_t>::max()));
}

uint64_t AvailableMemoryBytes(const CgroupPaths& paths) {
  const uint64_t physical = PhysicalMemoryBytes();
  return std::min(physical, CgroupMemoryBytes(paths).value_or(physical));
}

uint32_t AvailableCpus(const CgroupPaths& paths) {
  const uint32_t usable = UsableCpus();
  return std::min(usable, CgroupCpus(paths).value_or(usable));
}

}  // namespace sparseagg
