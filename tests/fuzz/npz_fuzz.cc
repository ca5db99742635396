// NumPy archives.
//
//   input := 0, the bytes of an archive
//          | 1, (u8 member's name, u16 length - 1, bytes)*       an archive of these members is
//          made
//
// The second form gets past the archive's checksums.
#include "client/io/npz.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/tensor_file_check.h"

namespace sparseagg::fuzz {
namespace {

constexpr const char* kNames[] = {
    "format",        "shape",        "data",   "row",         "col",       "coords",
    "indices",       "indptr",       "values", "dense_shape", "a/indices", "a/values",
    "a/dense_shape", "a/value_type", "b",      "value_type",  "offsets"};

// Read as they are, without a file.
void ReadMembers(FuzzInput& input) {
  static const testing::TemporaryFolder kFolder("/dev/shm");
  const std::string path = kFolder.path() + "/made.npz";
  std::vector<client::ZipMember> members;
  while (input.left() > 2) {
    const std::string name = kNames[input.Below(std::size(kNames))];
    // A member is never empty: it has the header of an array.
    const std::string content(input.Bytes(1 + input.Take<uint16_t>()));
    members.push_back({.name = name + ".npy", .head = content, .body = ""});
  }
  if (!client::WriteZip(path, members).ok()) return;
  const auto tensors = client::ReadNpz(path, {.bytes_max = kFileBytesMax});
  if (!tensors.ok()) return;
  CheckTensors(*tensors);
  CheckWriting(*tensors, "file.npz");
}

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  fuzz::FuzzInput input(data, size);
  if (input.Below(2) == 1) {
    fuzz::ReadMembers(input);
    return 0;
  }
  const fuzz::MemoryFile file(input.Rest());
  const auto tensors = client::ReadNpz(file.path(), {.bytes_max = fuzz::kFileBytesMax});
  if (!tensors.ok()) return 0;
  fuzz::CheckTensors(*tensors);
  return 0;
}
