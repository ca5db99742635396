#include "client/io/text_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file_error.h"

namespace sparseagg::client {
namespace {

constexpr size_t kInputBytes = size_t{64} << 10;
constexpr unsigned char kMagic[] = {0x1F, 0x8B};

absl::Status CannotRead(const std::string& path) {
  return FileUnusable(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
}

absl::Status Damaged(const std::string& path, const std::string& what) {
  return MalformedFile(path, "", absl::StrCat("its gzip data ", what));
}

}  // namespace

void TextFile::InflateEnder::operator()(z_stream_s* stream) const {
  inflateEnd(stream);
  delete stream;
}

absl::StatusOr<TextFile> TextFile::Open(const std::string& path, uint64_t unpacked_bytes_max) {
  TextFile text;
  text.path_ = path;
  text.file_.reset(std::fopen(path.c_str(), "rb"));
  struct stat info {};
  if (text.file_ == nullptr || fstat(fileno(text.file_.get()), &info) != 0) return CannotRead(path);
  if (!S_ISREG(info.st_mode)) return FileUnusable(path, "is not a regular file");
  text.bytes_ = static_cast<uint64_t>(info.st_size);
  char magic[sizeof(kMagic)];
  SPARSEAGG_ASSIGN_OR_RETURN(const size_t got, text.ReadPlain(magic, sizeof(magic)));
  SPARSEAGG_RETURN_IF_ERROR(text.Rewind());
  if (got == sizeof(magic) && std::memcmp(magic, kMagic, sizeof(magic)) == 0) {
    SPARSEAGG_RETURN_IF_ERROR(text.StartUnpacking(unpacked_bytes_max));
  }
  return text;
}

absl::Status TextFile::StartUnpacking(uint64_t unpacked_bytes_max) {
  constexpr int kOnlyGzip = 16;  // zlib: added to the window bits
  stream_.reset(new z_stream_s{});
  if (inflateInit2(stream_.get(), MAX_WBITS + kOnlyGzip) != Z_OK) {
    return FileUnusable(path_, "there is no memory to unpack it");
  }
  input_.resize(kInputBytes);
  // The length in gzip's trailer is modulo 2^32 and need not be correct.
  std::vector<char> scratch(size_t{1} << 18);
  bytes_ = 0;
  for (;;) {
    SPARSEAGG_ASSIGN_OR_RETURN(const size_t got, Read(scratch.data(), scratch.size()));
    bytes_ += got;
    if (bytes_ > unpacked_bytes_max) {
      return FileTooLarge(path_, "",
                          absl::StrCat("unpacks to more than ", unpacked_bytes_max, " bytes"));
    }
    if (got < scratch.size()) return Rewind();
  }
}

absl::Status TextFile::Rewind() {
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) return CannotRead(path_);
  if (stream_ != nullptr) stream_->avail_in = 0;
  between_members_ = true;
  return absl::OkStatus();
}

absl::StatusOr<size_t> TextFile::ReadPlain(char* out, size_t size) {
  const size_t got = std::fread(out, 1, size, file_.get());
  if (std::ferror(file_.get()) != 0) return CannotRead(path_);
  return got;
}

absl::Status TextFile::FillInput() {
  SPARSEAGG_ASSIGN_OR_RETURN(const size_t got, ReadPlain(input_.data(), input_.size()));
  stream_->next_in = reinterpret_cast<Bytef*>(input_.data());
  stream_->avail_in = static_cast<uInt>(got);
  return absl::OkStatus();
}

absl::StatusOr<size_t> TextFile::Read(char* out, size_t size) {
  if (stream_ == nullptr) return ReadPlain(out, size);
  size_t done = 0;
  while (done < size) {
    if (stream_->avail_in == 0) {
      SPARSEAGG_RETURN_IF_ERROR(FillInput());
      if (stream_->avail_in == 0 && between_members_) return done;
      if (stream_->avail_in == 0) return Damaged(path_, "ends early; fetch the file again");
    }
    if (std::exchange(between_members_, false)) {
      if (*stream_->next_in != kMagic[0]) {
        return Damaged(path_, "is followed by other bytes; unpack it with gzip -d");
      }
      inflateReset(stream_.get());
    }
    const auto room =
        static_cast<uInt>(std::min<size_t>(size - done, std::numeric_limits<uInt>::max()));
    stream_->next_out = reinterpret_cast<Bytef*>(out + done);
    stream_->avail_out = room;
    const int code = inflate(stream_.get(), Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return FileUnusable(path_, "there is no memory to unpack it");
    if (code != Z_OK && code != Z_STREAM_END) {
      return Damaged(path_, absl::StrCat("is damaged: ", stream_->msg == nullptr
                                                             ? std::string("unknown content")
                                                             : std::string(stream_->msg)));
    }
    done += room - stream_->avail_out;
    between_members_ = code == Z_STREAM_END;
  }
  return done;
}

}  // namespace sparseagg::client
