#include "sparse/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sparseagg {
namespace {

// "max" and anything else that is no number: none. So is 0, under which nothing could run.
std::optional<uint64_t> LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  uint64_t bytes = 0;
  if (!std::getline(file, line) || !absl::SimpleAtoi(line, &bytes) || bytes == 0) {
    return std::nullopt;
  }
  return bytes;
}

std::optional<uint64_t> Least(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

// Of the groups from `mount` down to `group`, a path below it. In a container without a namespace
// of control groups the path is the host's, and only `mount` itself, which is the container's
// group, is there: the others have no file. A ".." leads to a group outside of the namespace.
std::optional<uint64_t> LeastOnTheWay(const std::string& mount, const std::string& group,
                                      const char* file) {
  std::string folder = mount;
  std::optional<uint64_t> least = LimitIn(absl::StrCat(folder, "/", file));
  const std::vector<std::string> names = absl::StrSplit(group, '/', absl::SkipEmpty());
  for (const std::string& name : names) {
    if (name == "..") break;
    absl::StrAppend(&folder, "/", name);
    least = Least(least, LimitIn(absl::StrCat(folder, "/", file)));
  }
  return least;
}

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page)
                               : uint64_t{1} << 32;
}

}  // namespace

// A line is NUMBER:CONTROLLERS:GROUP. Version 2 has the number 0 and no controllers:
//   0::/kubepods.slice/pod7.slice/crio-1.scope
//   4:memory:/docker/5f0c
std::optional<uint64_t> CgroupMemoryBytes(const CgroupPlaces& places) {
  // The mount itself counts also where nothing tells the group: it is the container's.
  std::string v2_group;
  std::string v1_group;
  std::ifstream membership(places.membership);
  for (std::string line; std::getline(membership, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) v2_group = parts[2];
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      v1_group = parts[2];
    }
  }
  return Least(LeastOnTheWay(places.root, v2_group, "memory.max"),
               LeastOnTheWay(places.root + "/memory", v1_group, "memory.limit_in_bytes"));
}

uint64_t AvailableMemoryBytes(const CgroupPlaces& places) {
  const uint64_t physical = PhysicalMemoryBytes();
  return std::min(physical, CgroupMemoryBytes(places).value_or(physical));
}

}  // namespace sparseagg
