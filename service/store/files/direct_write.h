// Writes a large file with direct I/O (O_DIRECT), which bypasses the page cache. The bytes are
// synced before they are acknowledged, and read again only after a restart, so cached pages would
// be useless; filling and writing them back took a third of the processor time of storing an
// update.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_DIRECT_WRITE_H_
#define SPARSEAGG_SERVICE_STORE_FILES_DIRECT_WRITE_H_

#include <span>
#include <string_view>

namespace sparseagg {

// Appends the pieces to a new, empty file. Returns the errno of the first failed write, or 0. Falls
// back to WriteAll() if the file system has no direct I/O. Does not sync the file.
int WriteAllDirect(int fd, std::span<const std::string_view> pieces);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_DIRECT_WRITE_H_
