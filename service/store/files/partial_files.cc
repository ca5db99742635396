#include "service/store/files/partial_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/store/checksums/crc32c.h"
#include "service/store/files/file_io.h"
#include "service/store/partial_records.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

// Returns ABORTED (UPLOAD_LOST) if the disk is full: the file's pages are marked clean, so that a
// second sync would succeed without having written them (fatal.h).
absl::Status SyncFile(const std::string& path) {
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0) return WriteError(path, errno);
  if (fdatasync(fd.get()) == 0) return absl::OkStatus();
  WriteError(path, errno).IgnoreError();  // may end the process
  return UploadLost();
}

// Writes all of `data` at `offset`, or nothing.
absl::Status WriteAt(const std::string& path, uint64_t offset,
                     std::span<const std::string_view> data) {
  const auto at = static_cast<off_t>(offset);
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0 || lseek(fd.get(), at, SEEK_SET) < 0) return WriteError(path, errno);
  const int error = WriteAll(fd.get(), data);
  if (error == 0) return absl::OkStatus();
  if (ftruncate(fd.get(), at) != 0) return WriteError(path, errno);
  return WriteError(path, error);
}

absl::Status MakeFile(const std::string& path, std::string_view content) {
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const int error = fd.get() < 0 ? errno : WriteAll(fd.get(), content);
  if (error == 0) return absl::OkStatus();
  if (fd.get() >= 0) unlink(path.c_str());
  return WriteError(path, error);
}

// Returns as much of the file as can be read, at most `bytes`.
std::string ReadPrefix(const std::string& path, size_t bytes) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string data(fd.get() < 0 ? 0 : bytes, '\0');
  size_t size = 0;
  while (size < data.size()) {
    const ssize_t got = read(fd.get(), data.data() + size, data.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  data.resize(size);
  return data;
}

// Returns the last checkpoint whose CRC-32C matches the file.
Checkpoint LastValidCheckpoint(const std::string& path,
                               const std::vector<Checkpoint>& checkpoints) {
  Checkpoint good;
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return good;
  std::string buffer(kReadBytes, '\0');
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  for (const Checkpoint& checkpoint : checkpoints) {
    while (bytes < checkpoint.bytes) {
      const size_t wanted = std::min<uint64_t>(buffer.size(), checkpoint.bytes - bytes);
      const ssize_t got = pread(fd.get(), buffer.data(), wanted, static_cast<off_t>(bytes));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return good;
      crc32c = Crc32c({buffer.data(), static_cast<size_t>(got)}, crc32c);
      bytes += static_cast<uint64_t>(got);
    }
    if (crc32c != checkpoint.crc32c) return good;
    good = checkpoint;
  }
  return good;
}

}  // namespace

class PartialFiles::File : public UploadPayload {
 public:
  File(PartialFiles& owner, PartialIdentity identity, uint64_t number)
      : owner_(owner), identity_(std::move(identity)), number_(number) {}
  ~File() override {
    Unmap();
    if (gone_) return;
    // The checkpoint is not synced, because it is verified before it is used.
    if (number_ != 0 && bytes_ > checkpointed_) AppendCheckpoint().IgnoreError();
    owner_.Return(*this);
  }

  const PartialIdentity& identity() const { return identity_; }
  uint64_t number() const { return number_; }

  uint64_t total_bytes() const override { return identity_.total_bytes; }
  uint64_t bytes() const override { return bytes_; }

  using UploadPayload::Append;
  absl::Status Append(std::span<const std::string_view> data) override {
    SPARSEAGG_RETURN_IF_ERROR(owner_.check_free_space_());
    if (number_ == 0) SPARSEAGG_RETURN_IF_ERROR(Create());
    SPARSEAGG_RETURN_IF_ERROR(WriteAt(Path(), bytes_, data));
    SPARSEAGG_RETURN_IF_ERROR(owner_.failpoints_.Check(Failpoint::kPartWritten));
    for (const std::string_view piece : data) {
      bytes_ += piece.size();
      crc32c_ = Crc32c(piece, crc32c_);
    }
    if (bytes_ - checkpointed_ < owner_.checkpoint_bytes_) return absl::OkStatus();
    // The bytes are appended whether or not the checkpoint succeeds, unless it finds them lost.
    const absl::Status made = MakeCheckpoint();
    return absl::IsAborted(made) ? made : absl::OkStatus();
  }

  absl::StatusOr<std::string_view> View() override {
    if (bytes_ == 0) return std::string_view();
    if (view_ == nullptr) {
      const Descriptor fd(open(Path().c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.get() < 0) return ReadError(Path(), errno);
      void* view = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
      if (view == MAP_FAILED) return ReadError(Path(), errno);
      view_ = view;
      view_bytes_ = bytes_;
    }
    return std::string_view(static_cast<const char*>(view_), view_bytes_);
  }

  void Discard() override {
    if (std::exchange(gone_, true)) return;
    if (number_ != 0) {
      unlink(PartPath().c_str());
      unlink(Path().c_str());
    }
    owner_.Forget(*this);
  }

  void HandOver() {
    gone_ = true;
    unlink(PartPath().c_str());
    owner_.failpoints_.Pass(Failpoint::kPartHandedOver);
    owner_.Forget(*this);
  }

  // Truncates both files to the last good checkpoint and syncs the payload.
  absl::Status Recover() {
    if (number_ == 0) return absl::OkStatus();
    const PartialRecord record = ReadPartialRecord(ReadPrefix(PartPath(), kPartialRecordBytesMax));
    const Checkpoint good = LastValidCheckpoint(Path(), record.checkpoints);
    bytes_ = checkpointed_ = good.bytes;
    crc32c_ = good.crc32c;
    part_bytes_ = good.bytes == 0 ? record.identity_end : good.end;
    for (const auto& [path, bytes] : {std::pair(Path(), bytes_), {PartPath(), part_bytes_}}) {
      if (truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) return WriteError(path, errno);
    }
    return Sync(Path());
  }

  absl::StatusOr<BlobRef> Complete() {
    SPARSEAGG_RETURN_IF_ERROR(Sync(Path()));
    return BlobRef{.bytes = bytes_, .file = number_, .payload_crc32c = crc32c_};
  }

 private:
  std::string Path() const { return owner_.files_.PathOf(number_); }
  std::string PartPath() const { return absl::StrCat(Path(), kPartialSuffix); }

  absl::Status Create() {
    number_ = owner_.files_.NewNumber();
    const std::string record = IdentityRecord(identity_);
    absl::Status made = MakeFile(PartPath(), record);
    if (made.ok()) {
      made = MakeFile(Path(), "");
      if (made.ok()) made = owner_.failpoints_.Check(Failpoint::kPartMade);
    }
    part_bytes_ = record.size();
    if (!made.ok()) {
      unlink(PartPath().c_str());
      unlink(Path().c_str());
      number_ = 0;
    }
    return made;
  }

  // Syncs one of the two files. Discards both if the sync fails, because they cannot be trusted
  // then.
  absl::Status Sync(const std::string& path) {
    const absl::Status synced = SyncFile(path);
    if (absl::IsAborted(synced)) Discard();
    return synced;
  }

  absl::Status MakeCheckpoint() {
    SPARSEAGG_RETURN_IF_ERROR(Sync(Path()));
    SPARSEAGG_RETURN_IF_ERROR(owner_.failpoints_.Check(Failpoint::kCheckpointSynced));
    SPARSEAGG_RETURN_IF_ERROR(AppendCheckpoint());
    SPARSEAGG_RETURN_IF_ERROR(Sync(PartPath()));
    owner_.files_.Sync();
    return absl::OkStatus();
  }

  absl::Status AppendCheckpoint() {
    const std::string record = CheckpointRecord({.bytes = bytes_, .crc32c = crc32c_});
    const std::string_view bytes = record;
    SPARSEAGG_RETURN_IF_ERROR(WriteAt(PartPath(), part_bytes_, std::span(&bytes, 1)));
    part_bytes_ += record.size();
    checkpointed_ = bytes_;
    return absl::OkStatus();
  }

  void Unmap() {
    if (view_ != nullptr) munmap(std::exchange(view_, nullptr), view_bytes_);
  }

  PartialFiles& owner_;
  const PartialIdentity identity_;
  uint64_t number_;  // 0: no file exists yet
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;        // of the bytes_ bytes
  uint64_t checkpointed_ = 0;  // bytes that the last checkpoint covers
  uint64_t part_bytes_ = 0;    // length of N.part
  bool gone_ = false;          // deleted, or handed over to an accepted update
  void* view_ = nullptr;
  uint64_t view_bytes_ = 0;
};

// --- Payloads that are not in use ---

PartialFiles::Key PartialFiles::KeyOf(const PartialIdentity& identity) {
  return {identity.round, identity.contributor, identity.update_id};
}

void PartialFiles::DeleteLeftovers(const std::vector<uint64_t>& named,
                                   const std::function<bool(const std::string& round)>& is_open) {
  std::set<uint64_t> unnamed;
  for (const uint64_t number : files_.List()) {
    if (!std::binary_search(named.begin(), named.end(), number)) unnamed.insert(number);
  }
  std::lock_guard lock(mutex_);
  for (const uint64_t number : files_.List(kPartialSuffix)) {
    const std::string part = absl::StrCat(files_.PathOf(number), kPartialSuffix);
    PartialRecord record = ReadPartialRecord(ReadPrefix(part, kPartialRecordBytesMax));
    const bool kept = unnamed.contains(number) && record.identity &&
                      is_open(record.identity->round) &&
                      entries_.try_emplace(KeyOf(*record.identity)).second;
    if (kept) {
      unnamed.erase(number);
      Entry& entry = entries_[KeyOf(*record.identity)];
      entry.identity = *std::move(record.identity);
      entry.file = number;
      entry.since = std::chrono::steady_clock::now();
    } else {
      unlink(part.c_str());
    }
  }
  for (const uint64_t number : unnamed) files_.Delete(number);
}

absl::StatusOr<std::unique_ptr<UploadPayload>> PartialFiles::Take(PartialIdentity identity,
                                                                  int64_t row) {
  absl::StrAppend(&identity.description, " of row ", row);
  std::unique_ptr<File> file;
  uint64_t replaced = 0;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_[KeyOf(identity)];
    if (entry.taken) return StoreBusy("another call is starting the same update; try again");
    if (!(entry.identity == identity)) replaced = std::exchange(entry.file, 0);
    entry.identity = identity;
    entry.taken = true;
    file = std::make_unique<File>(*this, identity, entry.file);
  }
  if (replaced != 0) DeleteFiles(replaced);
  SPARSEAGG_RETURN_IF_ERROR(check_free_space_());
  SPARSEAGG_RETURN_IF_ERROR(file->Recover());
  return file;
}

void PartialFiles::Return(const File& file) {
  std::lock_guard lock(mutex_);
  if (file.number() == 0) {
    entries_.erase(KeyOf(file.identity()));
    return;
  }
  Entry& entry = entries_[KeyOf(file.identity())];
  entry.file = file.number();
  entry.taken = false;
  entry.since = std::chrono::steady_clock::now();
}

void PartialFiles::Forget(const File& file) {
  std::lock_guard lock(mutex_);
  entries_.erase(KeyOf(file.identity()));
}

absl::StatusOr<BlobRef> PartialFiles::Complete(UploadPayload& payload) {
  return static_cast<File&>(payload).Complete();
}

void PartialFiles::HandOver(UploadPayload& payload) { static_cast<File&>(payload).HandOver(); }

void PartialFiles::DropRound(const std::string& round, const std::function<bool()>& is_open) {
  DropIf([&](const Entry& entry) { return entry.identity.round == round && !is_open(); });
}

void PartialFiles::DropUnusedSince(std::chrono::steady_clock::time_point time) {
  DropIf([&](const Entry& entry) { return entry.since < time; });
}

void PartialFiles::DropIf(const std::function<bool(const Entry&)>& condition) {
  std::vector<uint64_t> dropped;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& item) {
      const Entry& entry = item.second;
      if (entry.taken || !condition(entry)) return false;
      dropped.push_back(entry.file);
      return true;
    });
  }
  // The lock is not needed, since numbers are not reused, and a large file takes long to delete.
  for (const uint64_t number : dropped) DeleteFiles(number);
}

void PartialFiles::DeleteFiles(uint64_t number) const {
  unlink(absl::StrCat(files_.PathOf(number), kPartialSuffix).c_str());
  files_.Delete(number);
}

}  // namespace sparseagg
