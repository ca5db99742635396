#include "bench/reduce/case_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sparse/validate.h"

namespace sparseagg::bench {
namespace {

constexpr char kMagic[] = "SACASE01";
constexpr size_t kHeaderBytes = 64;
constexpr size_t kReleaseBytes = size_t{4} << 20;  // pages are given back in pieces of this size

struct Header {
  char magic[8];
  uint64_t num_rows;
  uint64_t row_width;
  uint64_t contributors;
  uint64_t entries;
};

EntryOrder LeastOrder(const CaseView& view) {
  EntryOrder least = EntryOrder::kCanonical;
  for (size_t k = 0; k < view.contributors(); ++k) {
    const uint64_t begin = view.offsets[k];
    least = std::min(least, OrderOf(view.rows + begin, view.offsets[k + 1] - begin));
  }
  return least;
}

}  // namespace

absl::StatusOr<CaseFile> CaseFile::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  struct stat about = {};
  void* memory = MAP_FAILED;
  if (fstat(file, &about) == 0 && static_cast<size_t>(about.st_size) >= kHeaderBytes) {
    memory = mmap(nullptr, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  const auto bad = absl::InvalidArgumentError(absl::StrCat(path, " is not a benchmark case"));
  if (memory == MAP_FAILED) return bad;
  const size_t bytes = about.st_size;

  CaseFile result;
  result.mapping_ = {static_cast<const std::byte*>(memory),
                     [bytes](const std::byte* m) { munmap(const_cast<std::byte*>(m), bytes); }};
  const std::byte* at = result.mapping_.get();
  Header header;
  std::memcpy(&header, at, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) return bad;
  if (header.row_width == 0 || header.row_width > kDenseWidthMax) return bad;
  // Together these exclude overflow below.
  if (header.entries > bytes || header.contributors > bytes || header.contributors == 0) return bad;
  const uint64_t weights_bytes = (header.contributors * sizeof(float) + 7) / 8 * 8;
  const unsigned __int128 expected =
      kHeaderBytes + (header.contributors + 1) * sizeof(uint64_t) + weights_bytes +
      static_cast<unsigned __int128>(header.entries) * (8 + header.row_width * sizeof(float));
  if (expected != bytes) return bad;

  CaseView& view = result.view_;
  view.layout = {header.num_rows, static_cast<uint32_t>(header.row_width), ValueType::kF32};
  at += kHeaderBytes;
  view.offsets = {reinterpret_cast<const uint64_t*>(at), header.contributors + 1};
  at += view.offsets.size_bytes();
  view.weights = {reinterpret_cast<const float*>(at), header.contributors};
  at += weights_bytes;
  view.rows = reinterpret_cast<const uint64_t*>(at);
  at += header.entries * sizeof(uint64_t);
  view.values = reinterpret_cast<const float*>(at);
  if (view.offsets.front() != 0 || view.offsets.back() != header.entries ||
      !std::is_sorted(view.offsets.begin(), view.offsets.end())) {
    return bad;
  }
  view.order = LeastOrder(view);
  return result;
}

void ForwardReader::Copy(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  if (kept_ == nullptr) kept_ = in;
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kReleaseBytes);
    std::memcpy(out, in, piece);
    out += piece;
    in += piece;
    bytes -= piece;
    if (static_cast<size_t>(in - kept_) < kReleaseBytes) continue;
    // Whole pages only; the pages at the edges are read again from the page cache if needed.
    constexpr uintptr_t kPage = 4096;
    const std::byte* begin = kept_ - reinterpret_cast<uintptr_t>(kept_) % kPage;
    const std::byte* end = in - reinterpret_cast<uintptr_t>(in) % kPage;
    madvise(const_cast<std::byte*>(begin), static_cast<size_t>(end - begin), MADV_DONTNEED);
    kept_ = in;
  }
}

}  // namespace sparseagg::bench
