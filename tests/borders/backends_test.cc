// Every update by every plan of every back end, whole and in pieces, in each encoding and form, as
// one batch and as many: all results are the exact one, bit for bit. Rounds are aimed at borders
// (rounds.h). SPARSEAGG_BORDER_UPDATES says how many updates; SPARSEAGG_BORDER_SEED repeats the
// round of a failure alone.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/encodings/coo_packed.h"
#include "sparse/validate.h"
#include "tests/borders/rounds.h"
#include "tests/cpu/only_target.h"
#include "tests/support/effort.h"
#include "tests/support/sanitizer.h"

namespace sparseagg::testing {
namespace {

struct NamedBackend {
  std::string name;
  std::unique_ptr<Backend> backend;
};

// Of each back end that runs here, one on one thread and one on three.
std::vector<std::vector<NamedBackend>> AllBackendsHere() {
  std::vector<std::vector<NamedBackend>> backends;
  for (const BackendFactory& factory : AllBackends()) {
    std::vector<NamedBackend> alike;
    for (const uint32_t threads : {1, 3}) {
      auto backend = factory.make({.threads = threads});
      if (!backend.ok()) continue;
      alike.push_back({std::string(factory.name), *std::move(backend)});
    }
    if (!alike.empty()) backends.push_back(std::move(alike));
  }
  return backends;
}

// The ways in which the updates of a round reach an aggregator.
enum class Arrival {
  kAny,           // each in its own way
  kPackedPieces,  // all as coo.packed, in pieces
  kRawPieces,     // all as coo.raw, in pieces
};

// The updates of a round as they travel; each encoding is made once.
class Travel {
 public:
  Travel(const BorderRound& round, Random& random)
      : round_(round), random_(random), encoded_(round.updates.size()) {}

  // Decoded into memory of the aggregator, as the engine does it.
  absl::StatusOr<StagedUpdate> Arrive(const Aggregator& aggregator, size_t u, Arrival arrival) {
    Wire wire = kAllWires[Below(random_, std::size(kAllWires))];
    if (arrival == Arrival::kPackedPieces) wire = Wire::kPackedForms;
    if (arrival == Arrival::kRawPieces) wire = OneIn(random_, 2) ? Wire::kRaw : Wire::kRawShort;
    auto& encoded = encoded_[u][static_cast<size_t>(wire)];
    if (!encoded.has_value()) encoded = Encode(round_, round_.updates[u], wire, random_);
    const float weight = round_.updates[u].weight;
    const bool in_pieces = arrival != Arrival::kAny || OneIn(random_, 2);
    return in_pieces ? InPieces(aggregator, *encoded, weight) : Whole(aggregator, *encoded, weight);
  }

 private:
  absl::StatusOr<StagedUpdate> Whole(const Aggregator& aggregator, const EncodedEntries& encoded,
                                     float weight) {
    absl::StatusOr<StagedUpdate> staged = aggregator.Stage(encoded.header.nnz);
    if (!staged.ok()) return staged;
    const Encoding* encoding = *FindEncoding(encoded.header.encoding);
    const absl::Status decoded =
        encoding->decode(encoded.header, round_.tensor, RandomPieces(encoded.indices, random_),
                         RandomPieces(encoded.values, random_), staged->entries);
    if (!decoded.ok()) return decoded;
    const auto order = ValidateUpdate(round_.spec, staged->entries.view(), weight);
    if (!order.ok()) return order.status();
    staged->order = *order;
    return staged;
  }

  absl::StatusOr<StagedUpdate> InPieces(const Aggregator& aggregator, const EncodedEntries& encoded,
                                        float weight) {
    const EncodedHeader& header = encoded.header;
    const Encoding& encoding = **FindEncoding(header.encoding);
    absl::StatusOr<StagedUpdate> staged =
        aggregator.StageIncremental(header.nnz, encoding.row_forms(header));
    if (!staged.ok()) return staged;
    const MutableCooView& entries = staged->entries;
    const auto decoder = encoding.decoder(header, round_.tensor, entries);
    UpdateValidator validator(round_.spec, entries.view(), weight);
    absl::Status status;
    for (const std::string_view piece : RandomPieces(encoded.indices, random_)) {
      if (status.ok()) status = decoder->AppendIndices(piece);
    }
    if (decoder->order() != EntryOrder::kUnknown) validator.SetKnownOrder(decoder->order());
    for (const std::string_view piece : RandomPieces(encoded.values, random_)) {
      if (status.ok()) status = decoder->AppendValues(piece);
      validator.SetKnownFinite(decoder->finite_values());
      if (status.ok()) status = validator.CheckValues(decoder->values());
    }
    if (!status.ok()) return status;
    const auto order = validator.Finish();
    if (!order.ok()) return order.status();
    staged->order = *order;
    UseWideRows(staged->entries);
    return staged;
  }

  const BorderRound& round_;
  Random& random_;
  std::vector<std::array<std::optional<EncodedEntries>, std::size(kAllWires)>> encoded_;
};

class BordersTest : public ::testing::Test {
 protected:
  // One batch, or a fold here and there; now and then a part of the updates in an aggregator of its
  // own, which is merged.
  absl::StatusOr<Aggregate> ReduceBy(Backend& backend, const std::string& plan,
                                     const BorderRound& round, Travel& travel, Arrival arrival) {
    const auto aggregator = NewAggregator(backend, round.spec, plan);
    std::unique_ptr<Aggregator> other;
    if (OneIn(random_, 32)) other = NewAggregator(backend, round.spec, plan);
    const bool folds = OneIn(random_, 8);
    for (size_t u = 0; u < round.updates.size(); ++u) {
      Aggregator& to = other != nullptr && OneIn(random_, 2) ? *other : *aggregator;
      absl::StatusOr<StagedUpdate> staged = travel.Arrive(to, u, arrival);
      if (!staged.ok()) return staged.status();
      const absl::Status status = to.Accumulate(*std::move(staged), round.updates[u].weight);
      if (!status.ok()) return status;
      if (!folds || !OneIn(random_, 2)) continue;
      const absl::Status folded = to.Snapshot().status();
      if (!folded.ok()) return folded;
    }
    if (other != nullptr) {
      const auto part = other->Snapshot();
      if (!part.ok()) return part.status();
      const absl::Status merged = aggregator->Merge(*part);
      if (!merged.ok()) return merged;
    }
    return std::move(*aggregator).Report();
  }

  // Returns whether all results are the exact one.
  bool Check(uint64_t seed) {
    random_.seed(seed ^ 0x9E3779B97F4A7C15);
    // One instruction set for each round.
    const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
    const int64_t target = targets[Below(random_, targets.size())];
    const OnlyTarget only(target);
    const BorderRound round = MakeBorderRound(seed, Scale::kCore);
    const auto expected = ExactResult(round);
    updates_ += round.updates.size();
    Travel travel(round, random_);
    bool same = true;
    for (const std::vector<NamedBackend>& alike : backends_) {
      if (alike[0].name == "reference" && (!round.whole_numbers || !OneIn(random_, 32))) continue;
      std::vector<std::string> plans = PlansFor(*alike[0].backend, round.spec);
      plans.emplace_back();  // the planner's choice
      for (const std::string& plan : plans) {
        for (const Arrival arrival : {Arrival::kAny, Arrival::kPackedPieces, Arrival::kRawPieces}) {
          // Only a dense state takes rows as they came, forced or by itself.
          if (arrival != Arrival::kAny && plan != "dense" && !plan.empty()) continue;
          const NamedBackend& named = alike[Below(random_, alike.size())];
          const auto actual = ReduceBy(*named.backend, plan, round, travel, arrival);
          const std::string difference = Difference(expected, actual);
          EXPECT_EQ(difference, "")
              << Describe(round) << "; " << named.name << ", " << hwy::TargetName(target)
              << ", plan \"" << plan << "\", arrival " << static_cast<int>(arrival);
          same &= difference.empty();
        }
      }
    }
    return same;
  }

  const std::vector<std::vector<NamedBackend>> backends_ = AllBackendsHere();
  Random random_;
  uint64_t updates_ = 0;
};

TEST_F(BordersTest, EveryPlanGivesTheExactResultHoweverUpdatesArrive) {
  const int wanted = Effort("SPARSEAGG_BORDER_UPDATES", FewerUnderTsan(30'000));
  ForEachSeed(static_cast<uint64_t>(wanted), updates_,
              [this](uint64_t seed) { return Check(seed); });
}

}  // namespace
}  // namespace sparseagg::testing
