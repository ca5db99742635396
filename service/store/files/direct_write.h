// Writing a large file past the page cache. Its bytes are on the disk anyhow before anybody hears
// of them, and are not read again but after a restart: cached pages would be made, filled, written
// back and thrown away for nothing, at a third of the processor time that storing an update takes.
#ifndef SPARSEAGG_SERVICE_STORE_FILES_DIRECT_WRITE_H_
#define SPARSEAGG_SERVICE_STORE_FILES_DIRECT_WRITE_H_

#include <span>
#include <string_view>

namespace sparseagg {

// Appends the pieces to a new, empty file. The errno of the first write that failed, or 0. Where
// the file system has no direct writes, this is WriteAll(). The file is not synced.
int WriteAllDirect(int fd, std::span<const std::string_view> pieces);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_FILES_DIRECT_WRITE_H_
