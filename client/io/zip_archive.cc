#include "client/io/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"

namespace sparseagg::client {
namespace {

struct FileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

std::string ErrorText(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

std::string Where(const std::string& member) { return absl::StrCat("member ", member); }

// Returns whether the fields of a zip_stat_t that are used below are present and acceptable.
absl::Status CheckMember(const std::string& path, const zip_stat_t& stat) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & kNeeded) != kNeeded) {
    return MalformedFile(path, "", "the archive does not describe one of its members");
  }
  if (stat.encryption_method != ZIP_EM_NONE) {
    return MalformedFile(path, Where(stat.name), "is encrypted");
  }
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return MalformedFile(
        path, Where(stat.name),
        absl::StrCat("compression method ", stat.comp_method, " is neither stored nor deflate"));
  }
  return absl::OkStatus();
}

}  // namespace

void ZipReader::Closer::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<ZipReader> ZipReader::Open(const std::string& path) {
  ZipReader reader;
  reader.path_ = path;
  int code = 0;
  reader.archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (reader.archive_ == nullptr) {
    if (code == ZIP_ER_NOENT || code == ZIP_ER_OPEN || code == ZIP_ER_READ) {
      return FileUnusable(path, absl::StrCat("cannot be read: ", ErrorText(code)));
    }
    return MalformedFile(path, "", absl::StrCat("is not a zip archive: ", ErrorText(code)));
  }
  const zip_int64_t count = zip_get_num_entries(reader.archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(reader.archive_.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0) {
      return MalformedFile(path, "", zip_strerror(reader.archive_.get()));
    }
    SPARSEAGG_RETURN_IF_ERROR(CheckMember(path, stat));
    const bool is_folder = stat.size == 0 && std::string_view(stat.name).ends_with('/');
    if (is_folder) continue;
    if (!reader.by_name_.emplace(stat.name, reader.members_.size()).second) {
      return MalformedFile(path, Where(stat.name), "appears twice");
    }
    reader.members_.push_back({stat.name, stat.size, static_cast<uint64_t>(i)});
  }
  return reader;
}

std::optional<size_t> ZipReader::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<std::string> ZipReader::Read(size_t index) const {
  const Member& member = members_[index];
  const std::unique_ptr<zip_file_t, FileCloser> file(
      zip_fopen_index(archive_.get(), members_[index].position, 0));
  if (file == nullptr) {
    return MalformedFile(path_, Where(member.name), zip_strerror(archive_.get()));
  }
  std::string content;
  size_t filled = 0;
  for (;;) {
    if (filled == content.size()) {
      // Doubles the buffer, up to one byte more than the stated size; that byte reveals a longer
      // member.
      const uint64_t wanted = std::max<uint64_t>(uint64_t{1} << 20, 2 * uint64_t{filled});
      content.resize(std::min<uint64_t>(wanted, std::max<uint64_t>(member.bytes, filled) + 1));
    }
    const zip_int64_t got = zip_fread(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0) {
      return MalformedFile(path_, Where(member.name), zip_file_strerror(file.get()));
    }
    if (got == 0) break;
    filled += static_cast<size_t>(got);
    if (filled > member.bytes) break;
  }
  if (filled != member.bytes) {
    return MalformedFile(path_, Where(member.name),
                         absl::StrCat("states ", member.bytes, " bytes and has ",
                                      filled > member.bytes ? "more" : absl::StrCat(filled)));
  }
  content.resize(filled);
  return content;
}

absl::StatusOr<std::string> ZipReader::ReadHead(size_t index, size_t bytes) const {
  const std::unique_ptr<zip_file_t, FileCloser> file(
      zip_fopen_index(archive_.get(), members_[index].position, 0));
  std::string head(bytes, '\0');
  size_t filled = 0;
  while (file != nullptr && filled < bytes) {
    const zip_int64_t got = zip_fread(file.get(), head.data() + filled, bytes - filled);
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  if (file == nullptr) {
    return MalformedFile(path_, Where(members_[index].name), zip_strerror(archive_.get()));
  }
  head.resize(filled);
  return head;
}

absl::Status WriteZip(const std::string& path, const std::vector<ZipMember>& members) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (archive == nullptr) {
    return FileUnusable(path, absl::StrCat("cannot be written: ", ErrorText(code)));
  }
  constexpr zip_uint16_t kDosDate1980 = (1 << 5) | 1;
  for (const ZipMember& member : members) {
    zip_buffer_fragment_t parts[2] = {
        {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(member.head.data())), member.head.size()},
        {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(member.body.data())), member.body.size()},
    };
    zip_source_t* source =
        zip_source_buffer_fragment(archive, parts, member.body.empty() ? 1 : 2, 0);
    const zip_int64_t index =
        source == nullptr ? -1
                          : zip_file_add(archive, member.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0 && source != nullptr) zip_source_free(source);
    const auto position = static_cast<zip_uint64_t>(index);
    if (index < 0 || zip_set_file_compression(archive, position, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive, position, 0, kDosDate1980, 0) != 0) {
      const std::string text = zip_strerror(archive);
      zip_discard(archive);
      return FileUnusable(path, absl::StrCat("cannot be written: ", text));
    }
  }
  if (zip_close(archive) != 0) {
    const std::string text = zip_strerror(archive);
    zip_discard(archive);
    return FileUnusable(path, absl::StrCat("cannot be written: ", text));
  }
  return absl::OkStatus();
}

}  // namespace sparseagg::client
