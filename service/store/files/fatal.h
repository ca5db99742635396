// Ends the process after a failed write or fsync. After a failed fsync, Linux marks the pages
// clean, so that a second fsync succeeds without having written them (PostgreSQL's "fsyncgate";
// Rebello et al., USENIX ATC 2020). Therefore the process ends before it acknowledges anything, and
// the next start reads what is on the disk.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_FATAL_H_
#define SPARSEAGG_SERVICE_STORE_FILES_FATAL_H_

#include <string_view>

namespace sparseagg {

inline constexpr int kStoreFailedExit = 70;  // EX_SOFTWARE of sysexits.h

// Writes one line to standard error and calls _exit(kStoreFailedExit). Thread-safe.
[[noreturn]] void EndProcess(std::string_view what, std::string_view why);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_FATAL_H_
