#include "service/engine/partial/round_partial.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/in_parallel.h"
#include "service/store/checksums/digest.h"
#include "sparse/partials/exact_number.h"
#include "sparse/partials/little_endian.h"
#include "sparse/partials/slices.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

constexpr std::string_view kMagic = "spagpart";
constexpr size_t kTensorHeadBytesMin = 2 + 1 + 1 + 3 + 1 + 1 + 1 + 1 + 8 + 8;
constexpr size_t kCoveredBytesMin = 1 + 1 + 1 + 1 + sizeof(float) + kDigestBytes;
// Half a millisecond of reading or writing: several times what starting a thread takes.
constexpr uint64_t kSlotsPerThread = uint64_t{1} << 17;
constexpr uint64_t kBytesPerSlot = 5;  // of f32
// The largest weight of an update of integers (docs/numerics.md).
constexpr int kWholeWeightBits = 24;

absl::Status Invalid(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL",
                   absl::StrCat("the partial aggregate ", std::string(what)));
}

template <class Length>
void AppendText(std::string_view text, std::string& out) {
  AppendNumber(static_cast<Length>(text.size()), out);
  out += text;
}

// Takes a string of `Length` bytes from the front.
template <class Length>
bool TakeText(std::string_view& bytes, std::string& text) {
  Length length = 0;
  if (!TakeNumber(bytes, length) || bytes.size() < length) return false;
  text = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

// --- Writing ---

void WriteWeight(const WideInteger& weight, std::string& out) {
  const std::vector<BalancedDigit> digits = BalancedDigits(weight);
  AppendNumber(static_cast<uint8_t>(digits.size()), out);
  for (const BalancedDigit& digit : digits) {
    AppendNumber(digit.position, out);
    AppendNumber(digit.digit, out);
  }
}

void WriteTensorHead(const TensorSpec& spec, uint64_t entries, uint64_t slices, std::string& out) {
  AppendText<uint16_t>(spec.name, out);
  AppendText<uint8_t>(spec.op, out);
  AppendNumber(spec.value_type, out);
  AppendNumber(spec.integer_overflow, out);
  AppendNumber(static_cast<uint8_t>(spec.dense_shape.size()), out);
  AppendNumber(static_cast<uint8_t>(spec.sparse_dim), out);
  for (const int64_t dimension : spec.dense_shape) AppendNumber(dimension, out);
  AppendNumber(entries, out);
  AppendNumber(slices, out);
}

void WriteCovered(std::span<const UpdateRecord> covered, std::string& out) {
  for (const UpdateRecord& update : covered) {
    AppendText<uint8_t>(update.contributor, out);
    AppendText<uint8_t>(update.update_id, out);
    AppendNumber(update.weight, out);
    out += update.digest;
  }
}

struct WrittenSlice {
  const Partial& tensor;
  size_t begin;  // of its rows
  size_t end;
  std::string bytes;
  std::string hash;
};

// Returns the threads that the slots are worth.
size_t ThreadsFor(uint64_t slots) {
  return std::clamp<uint64_t>(slots / kSlotsPerThread, 1, AvailableCpus());
}

void WriteAll(std::vector<WrittenSlice>& slices) {
  uint64_t slots = 0;
  for (const WrittenSlice& slice : slices) {
    slots += (slice.end - slice.begin) * SlotsPerRow(slice.tensor.spec);
  }
  InParallel(ThreadsFor(slots), slices.size(), [&](size_t i) {
    WrittenSlice& slice = slices[i];
    slice.bytes = WriteSlice(slice.tensor, slice.begin, slice.end);
    slice.hash = Sha256Of(slice.bytes);
  });
}

// --- Reading ---

// Returns the slices that `bytes` begins with, up to the first one that is cut off.
std::vector<std::string_view> SlicesOf(std::string_view bytes, uint64_t count) {
  std::vector<std::string_view> slices;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view slice = FirstSlice(bytes);
    if (slice.empty()) break;
    slices.push_back(slice);
    bytes.remove_prefix(slice.size());
  }
  return slices;
}

struct Head {
  uint32_t tensors = 0;
  uint64_t contributors = 0;
  bool named = false;
  WideInteger total_weight;
};

absl::Status ReadWeight(std::string_view& bytes, WideInteger& weight) {
  const std::string_view begin = bytes;
  uint8_t count = 0;
  if (!TakeNumber(bytes, count)) return Invalid("ends within its total weight");
  for (int i = 0; i < count; ++i) {
    uint8_t position = 0;
    int32_t digit = 0;
    if (!TakeNumber(bytes, position) || !TakeNumber(bytes, digit)) {
      return Invalid("ends within its total weight");
    }
    if (position >= 2 * WideInteger::kWords - 1) {
      return Invalid(absl::StrCat("has a digit of its total weight at position ", position));
    }
    weight.AddScaled(digit, WideInteger::kLastBit + 32 * position);
  }
  std::string again;
  WriteWeight(weight, again);
  if (weight.negative() || again != begin.substr(0, begin.size() - bytes.size())) {
    return Invalid("has a total weight that is negative or not in canonical form");
  }
  return absl::OkStatus();
}

absl::StatusOr<Head> ReadHead(std::string_view& bytes) {
  if (!bytes.starts_with(kMagic)) return Invalid("does not begin with spagpart");
  bytes.remove_prefix(kMagic.size());
  uint32_t version = 0;
  if (!TakeNumber(bytes, version)) return Invalid("ends within its head");
  if (version != kPartialVersion) {
    return MakeError(absl::StatusCode::kInvalidArgument, "UNSUPPORTED_PARTIAL_VERSION",
                     absl::StrCat("the partial aggregate has version ", version,
                                  "; this program reads version ", kPartialVersion));
  }
  Head head;
  uint8_t named = 0;
  if (!TakeNumber(bytes, head.tensors) || !TakeNumber(bytes, head.contributors) ||
      !TakeNumber(bytes, named)) {
    return Invalid("ends within its head");
  }
  head.named = named == 1;
  if (named > 1) return Invalid(absl::StrCat("has ", named, " in place of named, not 0 or 1"));
  if (head.contributors > kPartialContributorsMax) {
    return Invalid(absl::StrCat("has ", head.contributors, " contributors, more than ",
                                kPartialContributorsMax));
  }
  SPARSEAGG_RETURN_IF_ERROR(ReadWeight(bytes, head.total_weight));
  if (head.tensors == 0 || head.tensors > bytes.size() / kTensorHeadBytesMin) {
    return Invalid(absl::StrCat("states ", head.tensors, " tensors in ", bytes.size(), " bytes"));
  }
  return head;
}

struct TensorHead {
  TensorSpec spec;
  ReduceSpec reduce;
  uint64_t entries = 0;
  uint64_t slices = 0;
};

absl::StatusOr<TensorHead> ReadTensorHead(std::string_view& bytes) {
  TensorHead head;
  TensorSpec& spec = head.spec;
  uint8_t rank = 0;
  uint8_t sparse_dim = 0;
  if (!TakeText<uint16_t>(bytes, spec.name) || !TakeText<uint8_t>(bytes, spec.op) ||
      !TakeNumber(bytes, spec.value_type) || !TakeNumber(bytes, spec.integer_overflow) ||
      !TakeNumber(bytes, rank) || !TakeNumber(bytes, sparse_dim)) {
    return Invalid("ends within the head of a tensor");
  }
  const std::string name = Quoted(spec.name);
  if (spec.value_type < ValueType::kF16 || spec.value_type > ValueType::kU64) {
    return Invalid(absl::StrCat("has an unknown value type ", static_cast<int>(spec.value_type),
                                " in tensor ", name));
  }
  if (spec.integer_overflow != IntegerOverflow::kChecked &&
      spec.integer_overflow != IntegerOverflow::kModular) {
    return Invalid(absl::StrCat("has an unknown rule of overflow in tensor ", name));
  }
  if (rank > kRankMax) {
    return Invalid(
        absl::StrCat("has ", rank, " dimensions in tensor ", name, ", more than ", kRankMax));
  }
  spec.sparse_dim = sparse_dim;
  spec.dense_shape.resize(rank);
  for (int64_t& dimension : spec.dense_shape) {
    if (!TakeNumber(bytes, dimension)) return Invalid("ends within the head of a tensor");
  }
  if (!TakeNumber(bytes, head.entries) || !TakeNumber(bytes, head.slices)) {
    return Invalid("ends within the head of a tensor");
  }
  SPARSEAGG_ASSIGN_OR_RETURN(head.reduce, MakeReduceSpec(spec));
  return head;
}

absl::Status InvalidCovered(uint64_t position, std::string_view what) {
  return Invalid(
      absl::StrCat("has a covered update at position ", position, " ", std::string(what)));
}

absl::Status ReadCoveredUpdate(std::string_view& bytes, uint64_t position, UpdateRecord& update) {
  if (!TakeText<uint8_t>(bytes, update.contributor) ||
      !TakeText<uint8_t>(bytes, update.update_id) || !TakeNumber(bytes, update.weight) ||
      bytes.size() < kDigestBytes) {
    return InvalidCovered(position, "that is cut off");
  }
  update.digest = bytes.substr(0, kDigestBytes);
  bytes.remove_prefix(kDigestBytes);
  for (const absl::Status& valid :
       {ValidateContributor(update.contributor), ValidateUpdateId(update.update_id),
        ValidateWeight(update.weight)}) {
    if (!valid.ok()) {
      return InvalidCovered(position, absl::StrCat(": ", std::string(valid.message())));
    }
  }
  if (std::signbit(update.weight)) return InvalidCovered(position, "of weight -0");
  return absl::OkStatus();
}

absl::Status ReadCovered(std::string_view& bytes, const Head& head, const PartialReading& reading,
                         std::vector<UpdateRecord>& covered) {
  if (!head.named) return absl::OkStatus();
  if (head.contributors > bytes.size() / kCoveredBytesMin) {
    return Invalid(
        absl::StrCat("states ", head.contributors, " covered updates in ", bytes.size(), " bytes"));
  }
  SPARSEAGG_RETURN_IF_ERROR(reading.reserve(head.contributors * kRecordBytes));
  covered.reserve(head.contributors);
  WideInteger total;
  for (uint64_t i = 0; i < head.contributors; ++i) {
    UpdateRecord update;
    SPARSEAGG_RETURN_IF_ERROR(ReadCoveredUpdate(bytes, i, update));
    if (i > 0 && update.contributor <= covered.back().contributor) {
      return InvalidCovered(i, absl::StrCat("of contributor ", Quoted(update.contributor),
                                            ", not above the one before it"));
    }
    total.Add(double{update.weight});
    covered.push_back(std::move(update));
  }
  if (total == head.total_weight) return absl::OkStatus();
  return Invalid("has a total weight that is not the sum of its covered updates' weights");
}

// Whether contributors of legal weights can have the total. Whole weights keep integers in range.
absl::Status CheckTotalWeight(const Head& head, const TensorHead& tensor) {
  if (IsFloating(tensor.spec.value_type)) return absl::OkStatus();
  if (tensor.spec.op == "count" || tensor.spec.op == "min" || tensor.spec.op == "max") {
    return absl::OkStatus();
  }
  const ExactNumber total = MakeExact(head.total_weight);
  if (total.is_zero()) return absl::OkStatus();
  WideInteger rest;
  rest.AddScaled(Int128{head.contributors} << kWholeWeightBits, 0);
  for (const BalancedDigit& digit : BalancedDigits(head.total_weight)) {
    rest.AddScaled(-Int128{digit.digit}, WideInteger::kLastBit + 32 * digit.position);
  }
  if (total.exponent >= 0 && !rest.negative()) return absl::OkStatus();
  return Invalid(absl::StrCat("has a total weight that whole weights of ", head.contributors,
                              " contributors cannot have, but tensor ", Quoted(tensor.spec.name),
                              " needs them"));
}

absl::StatusOr<std::vector<TensorHead>> ReadTensorHeads(std::string_view& bytes, const Head& head,
                                                        const PartialReading& reading) {
  std::vector<TensorHead> tensors;
  std::vector<TensorSpec> specs;
  for (uint32_t i = 0; i < head.tensors; ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(tensors.emplace_back(), ReadTensorHead(bytes));
    SPARSEAGG_RETURN_IF_ERROR(CheckTotalWeight(head, tensors.back()));
    specs.push_back(tensors.back().spec);
  }
  if (!reading.specs.empty()) {
    SPARSEAGG_RETURN_IF_ERROR(CheckSameTensors(reading.specs, specs));
  }
  return tensors;
}

}  // namespace

std::string WritePartial(const RoundPartial& partial) {
  std::string out(kMagic);
  AppendNumber(kPartialVersion, out);
  AppendNumber(static_cast<uint32_t>(partial.specs.size()), out);
  AppendNumber(partial.tensors.front().contributors, out);
  AppendNumber(static_cast<uint8_t>(partial.named ? 1 : 0), out);
  WriteWeight(partial.tensors.front().total_weight, out);
  std::vector<WrittenSlice> slices;
  for (size_t i = 0; i < partial.specs.size(); ++i) {
    const std::vector<size_t> ends = SliceEnds(partial.tensors[i]);
    WriteTensorHead(partial.specs[i], partial.entries[i], ends.size(), out);
    for (size_t begin = 0; const size_t end : ends) {
      slices.push_back(
          {.tensor = partial.tensors[i], .begin = std::exchange(begin, end), .end = end});
    }
  }
  Sha256 digest;
  digest.Bytes(out);
  const size_t covered_at = out.size();
  if (partial.named) WriteCovered(partial.covered, out);
  digest.Bytes(Sha256Of(std::string_view(out).substr(covered_at)));
  WriteAll(slices);
  uint64_t bytes = out.size() + kDigestBytes;
  for (const WrittenSlice& slice : slices) bytes += slice.bytes.size();
  out.reserve(bytes);
  for (WrittenSlice& slice : slices) {
    digest.Bytes(slice.hash);
    out += std::exchange(slice.bytes, {});
  }
  out += digest.Finish();
  return out;
}

absl::StatusOr<RoundPartial> ReadPartial(std::string_view bytes, const PartialReading& reading) {
  if (bytes.size() < kMagic.size() + kDigestBytes) return Invalid("is too short");
  const std::string_view stated = PartialDigest(bytes);
  bytes.remove_suffix(kDigestBytes);
  const std::string_view all = bytes;
  SPARSEAGG_ASSIGN_OR_RETURN(const Head head, ReadHead(bytes));
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<TensorHead> tensors,
                             ReadTensorHeads(bytes, head, reading));
  Sha256 digest;
  digest.Bytes(all.substr(0, all.size() - bytes.size()));

  RoundPartial partial;
  partial.named = head.named;
  const std::string_view covered = bytes;
  SPARSEAGG_RETURN_IF_ERROR(ReadCovered(bytes, head, reading, partial.covered));
  digest.Bytes(Sha256Of(covered.substr(0, covered.size() - bytes.size())));

  const size_t threads = ThreadsFor(bytes.size() / kBytesPerSlot);
  std::mutex mutex;
  uint64_t held = partial.covered.size() * kRecordBytes;
  for (const TensorHead& tensor : tensors) {
    const std::vector<std::string_view> slices = SlicesOf(bytes, tensor.slices);
    std::vector<std::string> hashes(slices.size());
    // Some threads hash the slices while others read them.
    const ForEach for_each = [&](size_t n, const std::function<void(size_t)>& read) {
      InParallel(threads, slices.size() + n, [&](size_t i) {
        if (i >= slices.size()) return read(i - slices.size());
        hashes[i] = Sha256Of(slices[i]);
      });
    };
    const ReserveMemory reserve = [&](uint64_t more) {
      const std::lock_guard lock(mutex);
      return reading.reserve(held + more);
    };
    SPARSEAGG_ASSIGN_OR_RETURN(Partial read, ReadSlices({tensor.reduce, tensor.slices,
                                                         head.contributors, head.total_weight},
                                                        bytes, reserve, for_each));
    for (const std::string& hash : hashes) digest.Bytes(hash);
    held += MemoryBytes(read);
    partial.specs.push_back(tensor.spec);
    partial.tensors.push_back(std::move(read));
    partial.entries.push_back(tensor.entries);
  }
  if (!bytes.empty()) return Invalid(absl::StrCat("has ", bytes.size(), " bytes after its end"));
  if (digest.Finish() != stated && reading.check_digest)
    return Invalid("does not have the digest at its end");
  return partial;
}

std::string_view PartialDigest(std::string_view bytes) {
  return bytes.size() < kDigestBytes ? "" : bytes.substr(bytes.size() - kDigestBytes);
}

uint64_t MemoryBytes(const RoundPartial& partial) {
  uint64_t bytes = partial.covered.size() * kRecordBytes;
  for (const Partial& tensor : partial.tensors) bytes += MemoryBytes(tensor);
  return bytes;
}

}  // namespace sparseagg
