// What is done about a write or fsync that failed: nothing more. After a failed fsync Linux marks
// the pages clean, so that a second one succeeds without having written them (PostgreSQL's
// "fsyncgate"; Rebello et al., USENIX ATC 2020). The process ends before it acknowledges anything,
// and the next start finds out what is on the disk.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_FATAL_H_
#define SPARSEAGG_SERVICE_STORE_FILES_FATAL_H_

#include <string_view>

namespace sparseagg {

inline constexpr int kStoreFailedExit = 70;  // EX_SOFTWARE of sysexits.h

// One line to standard error, then _exit(kStoreFailedExit). Thread-safe.
[[noreturn]] void EndProcess(std::string_view what, std::string_view why);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_FATAL_H_
