// What parsers cost: a message, tensor, file or text that repeats itself is read in a number of
// steps that is linear in its bytes. Steps are the basic blocks that run, which the compiler counts
// (-fsanitize-coverage=trace-pc) in the sources that CMakeLists.txt lists, and the memory that
// is allocated anywhere. They are the same on every run and machine.
//
//   input := u8 parser, part*         part := u8 kind, u8 length, bytes
//   kind bits: 1 repeated, 2 inside the length-delimited field that the first byte begins
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "client/cli/tensor_spec.h"
#include "client/io/matrix_market.h"
#include "client/io/npz.h"
#include "client/io/zip_archive.h"
#include "proto/wire_format.h"
#include "service/config/config_file.h"
#include "service/engine/ingest/update.h"
#include "service/engine/round/round_spec.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/update_proto.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/validate.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/silence_protobuf.h"
#include "tests/support/temporary_folder.h"

namespace {

uint64_t blocks_run = 0;
uint64_t allocation_steps = 0;

// A block is a few instructions; so is what it takes to fill 16 bytes of new memory. Large memory
// comes from the system page by page as it is touched: protobuf reserves up to 50 MB for a string
// whose bytes it has not seen, once, and then finds the end of the message.
void CountAllocation(size_t bytes) {
  constexpr size_t kBytesAStep = 16;
  constexpr size_t kLarge = size_t{1} << 20;
  constexpr size_t kPage = 4096;
  allocation_steps += bytes / (bytes < kLarge ? kBytesAStep : kPage);
}

void* AllocateOrNull(size_t bytes) {
  CountAllocation(bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* Allocate(size_t bytes) {
  void* memory = AllocateOrNull(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The compiler calls __sanitizer_cov_trace_pc() at the beginning of every basic block. The linker
// puts this function in its place, because libFuzzer has one of that name.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" void __wrap___sanitizer_cov_trace_pc() { ++blocks_run; }

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
// AddressSanitizer has its own of these, whose memory std::free() may not return.
void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return AllocateOrNull(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return AllocateOrNull(bytes);
}
// Inlined they are free() of what a new expression gave, which the compiler takes for a mistake.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace sparseagg::fuzz {
namespace {

struct Part {
  bool repeated = false;
  bool inside_field = false;
  std::string_view bytes;
};

// More parts than there are shapes to tell apart make the target slow only.
std::vector<Part> TakeParts(FuzzInput& input) {
  std::vector<Part> parts;
  while (input.left() > 0 && parts.size() < 4) {
    const auto kind = input.Take<uint8_t>();
    const std::string_view bytes = input.Bytes(1 + input.Below(64));
    parts.push_back({.repeated = (kind & 1) != 0, .inside_field = (kind & 2) != 0, .bytes = bytes});
  }
  return parts;
}

void AppendLength(uint64_t length, std::string& out) {
  for (; length >= 0x80; length >>= 7) out.push_back(static_cast<char>(length | 0x80));
  out.push_back(static_cast<char>(length));
}

// The input with each repeated part `times` times.
std::string Repeat(const std::vector<Part>& parts, size_t times) {
  std::string all;
  for (const Part& part : parts) {
    std::string_view unit = part.bytes;
    if (part.inside_field) unit.remove_prefix(std::min<size_t>(1, unit.size()));
    std::string repeated;
    for (size_t i = 0; i < (part.repeated ? times : 1); ++i) repeated += unit;
    if (part.inside_field && !part.bytes.empty()) {
      all.push_back(part.bytes[0]);
      AppendLength(repeated.size(), all);
    }
    all += repeated;
  }
  return all;
}

// A round has so many tensors that a visit to each of them for every update would show.
const RoundSpec& LargeRound() {
  static const RoundSpec kSpec = [] {
    RoundSpec round;
    for (int i = 0; i < 2000; ++i) {
      round.tensors.push_back({.name = "t" + std::to_string(i), .dense_shape = {100}});
    }
    return round;
  }();
  return kSpec;
}

void Plan(const ReceivedUpdate& update) {
  const auto tensors = EncodedTensorsOf(update);
  if (!tensors.ok()) return;
  MakeUpdateLayout(LargeRound(), sparseagg::HeadersOf(*tensors), Limits()).status().IgnoreError();
}

void Plan(const v1::BeginUpdate& begin) {
  const auto headers = sparseagg::HeadersOf(begin);
  if (!headers.ok()) return;
  MakeUpdateLayout(LargeRound(), *headers, Limits()).status().IgnoreError();
}

void Normalise(const v1::RoundSpec& proto) {
  static const auto kStore = MakeMemoryStore();
  static const EngineOptions kOptions;
  auto spec = FromProto(proto, Durability::kMemory);
  if (!spec.ok()) return;
  spec = NormaliseRoundSpec(*std::move(spec), kOptions, *kStore);
  if (!spec.ok()) return;
  for (const TensorSpec& tensor : spec->tensors) MakeReduceSpec(tensor).status().IgnoreError();
}

void ReadSubmit(ByteChain bytes) {
  const auto update = ReadSubmitUpdate(bytes);
  if (update.ok()) Plan(*update);
}

void ReadStream(ByteChain bytes) {
  auto message = ReadStreamUpdates(bytes);
  if (!message.ok()) return;
  ShortenUpdateIds(*message);
  if (const auto* update = std::get_if<ReceivedUpdate>(&message->body)) Plan(*update);
  if (const auto* begin = std::get_if<v1::BeginUpdate>(&message->body)) Plan(*begin);
  if (const auto* batch = std::get_if<ReceivedBatch>(&message->body)) {
    for (const ReceivedUpdate& update : *batch) Plan(update);
  }
}

void ReadReduceMessage(ByteChain bytes) {
  const auto message = ReadReduce(bytes);
  if (!message.ok()) return;
  if (const auto* start = std::get_if<v1::ReduceStart>(&*message)) Normalise(start->spec());
  if (const auto* update = std::get_if<ReceivedUpdate>(&*message)) Plan(*update);
}

void ReadCreateRound(ByteChain bytes) {
  v1::CreateRoundRequest request;
  if (ReadRequest(bytes, uint64_t{1} << 30, &request).ok()) Normalise(request.spec());
}

// The bytes as gaps between rows, encoded; then decoded as they arrive, `piece` bytes at a time.
void DecodePacked(std::string_view bytes, size_t piece) {
  if (bytes.empty()) return;
  std::vector<uint64_t> rows;
  uint64_t row = 0;
  for (const char byte : bytes) rows.push_back(row += static_cast<uint8_t>(byte));
  const TensorSpec spec = {
      .name = "t", .dense_shape = {static_cast<int64_t>(row) + 1}, .sparse_dim = 1};
  std::string indices;
  AppendPackedIndices(rows.data(), rows.size(), indices);
  const std::vector<float> values(rows.size(), 1.0f);
  const TensorLayout layout = MakeLayout(spec).value();
  const EncodedHeader header = {.name = "t",
                                .encoding = "coo.packed",
                                .value_type = ValueType::kF32,
                                .dense_shape = spec.dense_shape,
                                .sparse_dim = 1,
                                .nnz = rows.size(),
                                .indices_bytes = indices.size(),
                                .values_bytes = values.size() * sizeof(float)};
  std::vector<float> out(rows.size());
  const auto decoder = FindEncoding(header.encoding)
                           .value()
                           ->decoder(header, spec, {layout, header.nnz, rows.data(), out.data()});
  const auto feed = [piece](std::string_view all, auto append) {
    for (; !all.empty(); all.remove_prefix(std::min(piece, all.size()))) {
      if (!append(all.substr(0, piece)).ok()) return;
    }
  };
  feed(indices, [&](std::string_view part) { return decoder->AppendIndices(part); });
  feed({reinterpret_cast<const char*>(values.data()), header.values_bytes},
       [&](std::string_view part) { return decoder->AppendValues(part); });
  const ReduceSpec reduce = MakeReduceSpec(spec).value();
  ValidateUpdate(reduce, {layout, header.nnz, rows.data(), out.data()}, 1.0f)
      .status()
      .IgnoreError();
}

// The bytes as rows of an update that sums up duplicates.
void DecodeRaw(std::string_view bytes, size_t piece) {
  const TensorSpec spec = {.name = "t",
                           .value_type = ValueType::kI32,
                           .dense_shape = {1 << 16},
                           .sparse_dim = 1,
                           .op = "max"};
  const uint64_t nnz = bytes.size() / 4;
  const EncodedHeader header = {.name = "t",
                                .encoding = "coo.raw",
                                .value_type = spec.value_type,
                                .dense_shape = spec.dense_shape,
                                .sparse_dim = 1,
                                .index_type = IndexType::kI32,
                                .nnz = nnz,
                                .indices_bytes = nnz * 4,
                                .values_bytes = nnz * 4};
  const TensorLayout layout = MakeLayout(spec).value();
  std::vector<uint64_t> rows(nnz);
  std::vector<int32_t> out(nnz);
  const auto decoder = FindEncoding(header.encoding)
                           .value()
                           ->decoder(header, spec, {layout, nnz, rows.data(), out.data()});
  for (uint64_t at = 0; at < header.indices_bytes; at += piece) {
    const auto part = bytes.substr(0, header.indices_bytes).substr(at, piece);
    if (!decoder->AppendIndices(part).ok()) return;
  }
  const ReduceSpec reduce = MakeReduceSpec(spec).value();
  ValidateUpdate(reduce, {layout, nnz, rows.data(), out.data()}, 1.0f).status().IgnoreError();
}

void ReadMatrix(std::string_view bytes) {
  const MemoryFile file(bytes);
  client::ReadMatrixMarket(file.path(), {.bytes_max = uint64_t{1} << 20}).status().IgnoreError();
}

// The bytes as each member of an archive.
void ReadArchive(std::string_view bytes) {
  static const testing::TemporaryFolder kFolder("/dev/shm");
  const std::string path = kFolder.path() + "/made.npz";
  const std::vector<client::ZipMember> members = {
      {.name = "indices.npy", .head = std::string(bytes), .body = ""}};
  if (!client::WriteZip(path, members).ok()) return;
  client::ReadNpz(path, {.bytes_max = uint64_t{1} << 20}).status().IgnoreError();
}

constexpr size_t kParsers = 10;

void Parse(size_t parser, std::string_view bytes) {
  const ByteChain chain(&bytes, 1);
  switch (parser) {
    case 0:
      return ReadSubmit(chain);
    case 1:
      return ReadStream(chain);
    case 2:
      return ReadReduceMessage(chain);
    case 3:
      return ReadCreateRound(chain);
    case 4:
      return DecodePacked(bytes, 1);
    case 5:
      return DecodePacked(bytes, 1000);
    case 6:
      return DecodeRaw(bytes, 3);
    case 7:
      return ReadMatrix(bytes);
    case 8:
      return ParseConfigFile(bytes, "file").status().IgnoreError();
    default:
      cli::ParseTensorSpec(bytes).status().IgnoreError();
      return ReadArchive(bytes);
  }
}

uint64_t StepsOf(size_t parser, std::string_view bytes) {
  blocks_run = 0;
  allocation_steps = 0;
  Parse(parser, bytes);
  return blocks_run + allocation_steps;
}

// Below kBatchUpdatesMax, so that the input is not refused for its length.
constexpr size_t kTimes = 960;
// What a byte may cost, and what any input may before its first one. The parsers need up to 48
// steps for a byte of the corpus; one step in a loop over what came before would be 480 for each
// repetition.
constexpr uint64_t kStepsPerByte = 100;
constexpr uint64_t kStepsAtOnce = 20'000;

}  // namespace
}  // namespace sparseagg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg::fuzz;
  SilenceProtobuf();
  FuzzInput input(data, size);
  const size_t parser = input.Below(kParsers);
  const std::vector<Part> parts = TakeParts(input);
  const std::string bytes = Repeat(parts, kTimes);
  Parse(parser, bytes);  // what happens once, as making tables, has happened
  const uint64_t steps = StepsOf(parser, bytes);
  Require(steps <= kStepsAtOnce + kStepsPerByte * bytes.size(),
          std::to_string(bytes.size()) + " bytes cost " + std::to_string(steps) + " steps");
  return 0;
}
