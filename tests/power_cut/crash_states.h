// Computes the disks that a power cut can leave. A file's content survives up to its last sync, a
// name up to the last sync of its folder; later changes may survive as a whole, in part, or not at
// all.
#ifndef SPARSEAGG_TESTS_POWER_CUT_CRASH_STATES_H_
#define SPARSEAGG_TESTS_POWER_CUT_CRASH_STATES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/power_cut/io_log.h"

namespace sparseagg::testing {

struct IoEvent {
  IoOp op;
  std::string name;
  uint64_t offset;
  std::string data;
};

std::vector<IoEvent> ReadIoLog(const std::string& path);

using Files = std::map<std::string, std::string>;  // content by path within the folder

Files ReadFolder(const std::string& folder);
void WriteFolder(const std::string& folder, const Files& files);

// The policy decides which unsynced changes survive.
enum class CutPolicy { kLost, kKept, kPrefix, kTorn };
inline constexpr CutPolicy kCutPolicies[] = {CutPolicy::kLost, CutPolicy::kKept, CutPolicy::kPrefix,
                                             CutPolicy::kTorn};

struct CrashState {
  Files files;
  std::vector<std::string> acknowledged;  // before the cut
};

// Returns the disk after the first `cut` events on top of `initial`, which was synced.
//   kLost    nothing that was not synced survives: deleted files are there again
//   kKept    all of it does
//   kPrefix  each new name or deletion by chance; of each file a prefix of its writes, the next one
//            by sectors of 512 bytes
//   kTorn    each new name or deletion by chance; every write by sectors
CrashState CutPower(const Files& initial, const std::vector<IoEvent>& events, size_t cut,
                    CutPolicy policy, std::mt19937_64& random);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_POWER_CUT_CRASH_STATES_H_
