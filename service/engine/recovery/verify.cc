#include "service/engine/recovery/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/observer.h"
#include "service/engine/partial/partial_body.h"
#include "service/engine/recovery/refold.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/result/manifest.h"
#include "service/engine/result/result_block.h"
#include "service/store/checksums/digest.h"
#include "sparse/reference_backend.h"

namespace sparseagg {
namespace {

// With less memory, updates would be read too often: 64 MiB hold the accumulators of about 100,000
// values.
constexpr uint64_t kBlockBytesMin = uint64_t{64} << 20;

absl::Status Cancelled() { return absl::CancelledError("the verification was cancelled"); }

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

absl::Status Mismatch(std::string_view what, const std::string& found,
                      const std::string& published) {
  return MakeError(absl::StatusCode::kDataLoss, kResultMismatch,
                   absl::StrCat(std::string(what), " has digest ", absl::BytesToHexString(found),
                                ", but the manifest says ", absl::BytesToHexString(published)));
}

uint64_t ResultBytes(const PublishedResult& result) {
  uint64_t bytes = result.partial.size();
  for (const SparseTensor& tensor : result.tensors) {
    bytes += tensor.indices.MemoryBytes() + tensor.values.size();
  }
  return bytes;
}

// Computes a group of blocks while the updates are read once.
class BlockReducers {
 public:
  static absl::StatusOr<BlockReducers> Make(std::span<const ReduceSpec> specs,
                                            std::span<const SparseTensor> published,
                                            std::span<const ResultBlock> blocks, Backend& backend) {
    BlockReducers reducers(specs, published, blocks);
    for (const ResultBlock& block : blocks) {
      SPARSEAGG_ASSIGN_OR_RETURN(const Plan plan, MakePlan(SpecOf(block, specs[block.tensor]),
                                                           Workload{}, backend.info()));
      SPARSEAGG_ASSIGN_OR_RETURN(auto aggregator, backend.NewAggregator(plan));
      reducers.aggregators_.push_back(std::move(aggregator));
    }
    return reducers;
  }

  absl::Status Accumulate(const StagedTensors& update, float weight) {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const size_t tensor = blocks_[i].tensor;
      SPARSEAGG_ASSIGN_OR_RETURN(
          StagedUpdate part,
          PartOf(blocks_[i], update[tensor], specs_[tensor], published_[tensor], *aggregators_[i]));
      SPARSEAGG_RETURN_IF_ERROR(aggregators_[i]->Accumulate(std::move(part), weight));
    }
    return absl::OkStatus();
  }

  absl::Status Merge(const RoundPartial& partial) {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const size_t tensor = blocks_[i].tensor;
      SPARSEAGG_ASSIGN_OR_RETURN(const Partial part,
                                 PartOf(blocks_[i], partial.tensors[tensor], published_[tensor]));
      SPARSEAGG_RETURN_IF_ERROR(aggregators_[i]->Merge(part));
    }
    return absl::OkStatus();
  }

  absl::Status Compare() && {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const size_t tensor = blocks_[i].tensor;
      SPARSEAGG_ASSIGN_OR_RETURN(const Aggregate again, std::move(*aggregators_[i]).Report());
      SPARSEAGG_RETURN_IF_ERROR(
          CheckBlock(blocks_[i], specs_[tensor], again.tensor, published_[tensor]));
    }
    return absl::OkStatus();
  }

 private:
  BlockReducers(std::span<const ReduceSpec> specs, std::span<const SparseTensor> published,
                std::span<const ResultBlock> blocks)
      : specs_(specs), published_(published), blocks_(blocks) {}

  std::span<const ReduceSpec> specs_;
  std::span<const SparseTensor> published_;
  std::span<const ResultBlock> blocks_;
  std::vector<std::unique_ptr<Aggregator>> aggregators_;
};

uint64_t LargestOf(std::span<const std::vector<ResultBlock>> groups) {
  uint64_t largest = 0;
  for (const std::vector<ResultBlock>& group : groups) {
    uint64_t bytes = 0;
    for (const ResultBlock& block : group) bytes += block.bytes;
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

absl::StatusOr<Verification> CompareWithUpdates(const UpdateStore& store, const std::string& round,
                                                const PublishedResult& result, Backend& backend,
                                                Admission& aggregation,
                                                const VerifyOptions& options) {
  const RoundSpec spec = WithoutPlans(result.spec);
  std::vector<ReduceSpec> specs;
  for (const TensorSpec& tensor : spec.tensors) {
    SPARSEAGG_ASSIGN_OR_RETURN(specs.emplace_back(), MakeReduceSpec(tensor));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const auto groups, CutIntoBlocks(specs, result.tensors, backend.info(),
                                                              options.memory_bytes));
  SPARSEAGG_ASSIGN_OR_RETURN(const Reservation memory,
                             aggregation.Reserve(LargestOf(groups), "the round"));
  // This decodes updates; an unused aggregator of the reference back end has only an empty table.
  SPARSEAGG_ASSIGN_OR_RETURN(const auto reference, MakeReferenceBackend({}));
  SPARSEAGG_ASSIGN_OR_RETURN(
      const auto decoder,
      TensorReducers::Make(spec, *reference, aggregation, {.result_nnz_max = kUnlimited}));
  const Limits limits = WithoutLimits();
  Verification read;
  std::vector<UpdateRecord> updates;
  for (const std::vector<ResultBlock>& group : groups) {
    updates.clear();
    read.bytes_read = 0;
    SPARSEAGG_ASSIGN_OR_RETURN(BlockReducers reducers,
                               BlockReducers::Make(specs, result.tensors, group, backend));
    SPARSEAGG_RETURN_IF_ERROR(store.ReadUpdates(
        round,
        [&](const UpdateRecord& update, std::string_view headers,
            std::string_view payload) -> absl::Status {
          if (options.cancelled()) return Cancelled();
          SPARSEAGG_ASSIGN_OR_RETURN(const KeptUpdate kept,
                                     ReadKeptUpdate(update, headers, payload, spec, limits));
          read.bytes_read += payload.size();
          if (IsPartialBody(kept.headers)) {
            SPARSEAGG_ASSIGN_OR_RETURN(RoundPartial partial, ReadKeptPartial(kept, spec));
            for (Partial& tensor : partial.tensors) tensor = WithSlots(std::move(tensor));
            updates.insert(updates.end(), partial.covered.begin(), partial.covered.end());
            return reducers.Merge(partial);
          }
          SPARSEAGG_ASSIGN_OR_RETURN(
              const StagedTensors staged,
              decoder->Stage(kept.payload.tensors(), kept.layout, update.weight));
          updates.push_back(update);
          return reducers.Accumulate(staged, update.weight);
        }));
    SPARSEAGG_RETURN_IF_ERROR(std::move(reducers).Compare());
  }
  read.backend = backend.info().name;
  read.contributors = updates.size();
  read.updates_digest = DigestOfSet(std::move(updates));
  const std::string& expected = result.manifest.updates_digest;
  if (!expected.empty() && read.updates_digest != expected) {
    return Mismatch("the set of kept updates", read.updates_digest, expected);
  }
  return read;
}

absl::StatusOr<Verification> Verify(const UpdateStore& store, const std::string& round,
                                    const PublishedResult& published, Backend& backend,
                                    Admission& aggregation, const VerifyOptions& options) {
  if (options.cancelled()) return Cancelled();  // reading the result may have taken long
  SPARSEAGG_RETURN_IF_ERROR(CheckResultDigest(published));
  SPARSEAGG_ASSIGN_OR_RETURN(
      Verification verified,
      CompareWithUpdates(store, round, published, backend, aggregation, options));
  verified.result_digest = published.manifest.result_digest;
  return verified;
}

absl::StatusOr<Verification> VerifyPublished(const UpdateStore& store, const std::string& round,
                                             const PublishedResult& result, Admission& aggregation,
                                             const VerifyOptions& options) {
  if (options.cancelled()) return Cancelled();
  Reservation memory;
  PublishedResult stored;
  const PublishedResult* published = &result;
  VerifyOptions rest = options;
  if (result.spec.durability == Durability::kDurable) {
    // Verify the bytes on the disk, not those in memory for readers.
    const uint64_t bytes_twice = 2 * ResultBytes(result);
    SPARSEAGG_ASSIGN_OR_RETURN(memory, aggregation.Reserve(bytes_twice, "the result"));
    rest.memory_bytes -= std::min(rest.memory_bytes, bytes_twice);
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string bytes, store.ReadResult(round));
    stored.spec = result.spec;
    stored.manifest = result.manifest;
    if (result.spec.publish_partial) {
      stored.partial = bytes;
    } else {
      SPARSEAGG_ASSIGN_OR_RETURN(stored.tensors, ReadResult(bytes, stored.spec));
    }
    published = &stored;
  }
  if (!result.spec.keep_updates) {
    SPARSEAGG_RETURN_IF_ERROR(CheckResultDigest(*published));
    return MakeError(absl::StatusCode::kFailedPrecondition, "UPDATES_NOT_KEPT",
                     "the stored result has the digest of its manifest; the updates were erased at "
                     "publication, so it cannot be computed again: set keep_updates_until_deleted");
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const auto reference, MakeReferenceBackend({}));
  rest.memory_bytes = std::max(rest.memory_bytes, kBlockBytesMin);
  return Verify(store, round, *published, *reference, aggregation, rest);
}

bool IsSampled(double share, std::string_view round,
               std::chrono::system_clock::time_point create_time) {
  if (share <= 0) return false;
  if (share >= 1) return true;
  const auto since_1970 = std::chrono::duration_cast<std::chrono::milliseconds>(
      create_time.time_since_epoch());  // in the resolution of the stored time
  Sha256 digest;
  digest.String(round).U64(static_cast<uint64_t>(since_1970.count()));
  const std::string bytes = digest.Finish();
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return static_cast<double>(number) < std::ldexp(share, 64);
}

absl::Status VerifyUnpublished(const UpdateStore& store, const std::string& round,
                               const PublishedResult& result, Admission& aggregation,
                               std::function<bool()> cancelled) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto reference, MakeReferenceBackend({}));
  const VerifyOptions options = {
      .memory_bytes = std::max(aggregation.bytes_free() / 2, kBlockBytesMin),
      .cancelled = std::move(cancelled)};
  const absl::Status compared =
      CompareWithUpdates(store, round, result, *reference, aggregation, options).status();
  if (ErrorReason(compared) != kResultMismatch) return compared;
  return MakeError(
      absl::StatusCode::kDataLoss, kResultMismatch,
      absl::StrCat("RESULT_MISMATCH: the result differs from that of the reference back "
                   "end for the same updates, so it is not published: ",
                   std::string(compared.message())));
}

absl::Status CheckResultDigest(const PublishedResult& published) {
  if (published.spec.publish_partial) {
    // Whether the digest at the end of the bytes is the digest of the bytes.
    const absl::Status read = ReadPartial(published.partial, {}).status();
    if (!read.ok()) {
      return MakeError(absl::StatusCode::kDataLoss, kResultMismatch,
                       absl::StrCat("the stored result: ", std::string(read.message())));
    }
  }
  const std::string digest = ResultDigest(published);
  if (digest == published.manifest.result_digest) return absl::OkStatus();
  return Mismatch("the stored result", digest, published.manifest.result_digest);
}

}  // namespace sparseagg
