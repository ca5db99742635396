// Zip archives as lists of named members, by libzip. Reading does not trust the sizes that the
// archive states: memory grows with the bytes actually read.
#ifndef SPARSEAGG_CLIENT_IO_ZIP_ARCHIVE_H_
#define SPARSEAGG_CLIENT_IO_ZIP_ARCHIVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct zip;

namespace sparseagg::client {

// Thread-compatible.
class ZipReader {
 public:
  struct Member {
    std::string name;
    uint64_t bytes = 0;     // uncompressed size that the archive states
    uint64_t position = 0;  // in the archive
  };

  // FILE_UNUSABLE or MALFORMED_FILE, the latter also for two members of the same name, an encrypted
  // member, and a compression method other than stored and deflate.
  static absl::StatusOr<ZipReader> Open(const std::string& path);

  // Without directory entries.
  const std::vector<Member>& members() const { return members_; }
  const std::string& path() const { return path_; }
  // The index in members() of the member with this name.
  std::optional<size_t> Find(const std::string& name) const;
  // The content of members()[index], its length and checksum verified.
  absl::StatusOr<std::string> Read(size_t index) const;
  // The first `bytes` bytes of members()[index], or all of it if it has fewer; not verified.
  absl::StatusOr<std::string> ReadHead(size_t index, size_t bytes) const;

 private:
  struct Closer {
    void operator()(zip* archive) const;
  };
  std::string path_;
  std::unique_ptr<zip, Closer> archive_;
  std::vector<Member> members_;
  std::map<std::string, size_t> by_name_;
};

// A member to be written: `head` followed by `body`, which must stay valid until WriteZip()
// returns.
struct ZipMember {
  std::string name;
  std::string head;
  std::string_view body;
};

// Writes an archive whose bytes depend on the members only: stored, with the timestamp 1980-01-01.
// The file gets its name when it is complete. FILE_UNUSABLE.
absl::Status WriteZip(const std::string& path, const std::vector<ZipMember>& members);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_ZIP_ARCHIVE_H_
