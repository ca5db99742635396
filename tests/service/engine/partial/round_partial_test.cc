// The bytes of a partial aggregate: the same for the same updates, however they were divided,
// reduced and merged; and nothing else is read.
#include "service/engine/partial/round_partial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "service/store/checksums/digest.h"
#include "sparse/ops/all.h"
#include "sparse/partials/blocks.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::MakeSpec;
using testing::Update;
using testing::Values;

// --- States ---

class PartialBytesTest : public ::testing::Test {
 protected:
  PartialBytesTest() {
    for (const BackendFactory& factory : AllBackends()) {
      auto backend = factory.make({.threads = 2});
      if (backend.ok()) backends_.push_back(*std::move(backend));
    }
  }

  static TensorSpec SpecOf(const ReduceSpec& reduce) {
    return {.name = reduce.name,
            .value_type = reduce.layout.value_type,
            .dense_shape = {static_cast<int64_t>(reduce.layout.num_rows), reduce.layout.row_width},
            .sparse_dim = 1,
            .op = reduce.op,
            .integer_overflow = reduce.integer_overflow};
  }

  static RoundPartial Wrap(const Partial& state, uint64_t entries) {
    RoundPartial partial;
    partial.specs = {SpecOf(state.spec)};
    partial.tensors = {state};
    partial.entries = {entries};
    return partial;
  }

  static Partial StateOf(Backend& backend, const ReduceSpec& spec,
                         std::span<const Update> updates) {
    const auto aggregator = testing::NewAggregator(backend, spec);
    for (const Update& update : updates) {
      StagedUpdate staged = testing::StageCopy(*aggregator, update);
      staged.order = *ValidateUpdate(spec, staged.entries.view(), update.weight);
      EXPECT_TRUE(aggregator->Accumulate(std::move(staged), update.weight).ok());
    }
    return *aggregator->Snapshot();
  }

  // Merges two states in one of the ways in which programs do.
  Partial Merged(const Partial& a, const Partial& b) {
    if (random_() % 2 == 0) return MergePartials(a, b);
    Backend& backend = *backends_[random_() % backends_.size()];
    const auto aggregator = testing::NewAggregator(backend, a.spec);
    for (const Partial& part : {a, b}) {
      const auto read = ReadPartial(WritePartial(Wrap(part, 0)), {});
      if (!read.ok()) throw testing::StatusError(read.status());
      EXPECT_TRUE(aggregator->Merge(read->tensors[0]).ok());
    }
    return *aggregator->Snapshot();
  }

  std::vector<Update> ValidUpdates(const ReduceSpec& spec, Values values) {
    std::vector<Update> updates =
        testing::MakeUpdates(spec, {40, 9, testing::Distribution::kZipf, values}, 7);
    const auto aggregator = testing::NewAggregator(*backends_[0], spec);
    std::erase_if(updates, [&](const Update& update) {
      return !ValidateUpdate(spec, testing::StageCopy(*aggregator, update).entries.view(),
                             update.weight)
                  .ok();
    });
    return updates;
  }

  std::vector<std::unique_ptr<Backend>> backends_;
  std::mt19937_64 random_{20261127};
};

// Divides the updates at random among up to 8 leaves, and merges these as a random tree.
TEST_F(PartialBytesTest, DoNotDependOnBackendsCutsAndTrees) {
  for (const std::string_view op : AllOps::kNames) {
    for (const ValueType type : kAllValueTypes) {
      for (const Values values : {Values::kNormal, Values::kHostile, Values::kFarApart}) {
        ReduceSpec spec = MakeSpec(std::string(op), type, 200'000, 3);
        const std::vector<Update> updates = ValidUpdates(spec, values);
        if (updates.empty()) continue;
        const std::string expected = WritePartial(Wrap(StateOf(*backends_[0], spec, updates), 0));
        std::vector<std::vector<Update>> leaves(1 + random_() % 8);
        for (const Update& update : updates) leaves[random_() % leaves.size()].push_back(update);
        std::vector<Partial> states;
        for (const auto& leaf : leaves) {
          states.push_back(StateOf(*backends_[random_() % backends_.size()], spec, leaf));
        }
        while (states.size() > 1) {
          std::shuffle(states.begin(), states.end(), random_);
          Partial merged = Merged(states[states.size() - 2], states.back());
          states.pop_back();
          states.back() = std::move(merged);
        }
        states[0] = WithSlots(std::move(states[0]));
        EXPECT_TRUE(WritePartial(Wrap(states[0], 0)) == expected) << op << ", as slots";
        Rebase(states[0], IsFloating(type) && op != "min" && op != "max" ? -137 : 0);
        EXPECT_TRUE(WritePartial(Wrap(states[0], 0)) == expected)
            << op << " of " << ValueTypeName(type) << ", values " << static_cast<int>(values)
            << ", leaves " << leaves.size();
      }
    }
  }
}

TEST_F(PartialBytesTest, GiveTheResultOfTheUpdates) {
  for (const std::string_view op : AllOps::kNames) {
    const ReduceSpec spec = MakeSpec(std::string(op), ValueType::kF32, 200'000, 3);
    const std::vector<Update> updates = ValidUpdates(spec, Values::kFarApart);
    const auto read =
        ReadPartial(WritePartial(Wrap(StateOf(*backends_[0], spec, updates), 360)), {});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->entries[0], 360u);
    for (const auto& backend : backends_) {
      const auto aggregator = testing::NewAggregator(*backend, spec);
      ASSERT_TRUE(aggregator->Merge(read->tensors[0]).ok());
      absl::StatusOr<Aggregate> expected = testing::Reduce(*backend, spec, updates);
      absl::StatusOr<Aggregate> merged = std::move(*aggregator).Report();
      merged->addends = expected->addends;  // a bound of slots after a merge
      EXPECT_EQ(testing::Difference(expected, merged), "") << op << " " << backend->info().name;
    }
  }
}

TEST_F(PartialBytesTest, AreShortWhereRowsHaveOneContributor) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1'000'000, 64);
  Update update =
      testing::MakeUpdates(spec, {1000, 1, testing::Distribution::kSorted, Values::kNormal}, 3)[0];
  update.weight = 1;
  const size_t bytes = WritePartial(Wrap(StateOf(*backends_[0], spec, {&update, 1}), 0)).size();
  const size_t raw = update.rows.size() * (sizeof(uint64_t) + 64 * sizeof(float));
  EXPECT_LT(bytes, raw) << "raw rows, and offsets of two bytes";
}

// A million contributors of a million entries each would be 2^40 entries, more than a slot takes;
// what counts is what is in the slots.
TEST_F(PartialBytesTest, OfMoreEntriesThanASlotTakesAreMerged) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 100, 1);
  const std::vector<Update> updates = ValidUpdates(spec, Values::kNormal);
  const std::string bytes =
      WritePartial(Wrap(StateOf(*backends_[0], spec, updates), uint64_t{1} << 40));
  const auto aggregator = testing::NewAggregator(*backends_.back(), spec);
  for (int i = 0; i < 64; ++i) {
    const auto read = ReadPartial(bytes, {});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->entries[0], uint64_t{1} << 40);
    ASSERT_TRUE(aggregator->Merge(read->tensors[0]).ok());
  }
}

// --- Hostile input ---

class HostilePartialTest : public PartialBytesTest {
 protected:
  RoundPartial Named() {
    const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, 1000, 2);
    std::vector<Update> updates = ValidUpdates(spec, Values::kNormal);
    updates.resize(2);
    RoundPartial partial = Wrap(StateOf(*backends_[0], spec, updates), 80);
    partial.named = true;
    for (const char* name : {"a", "b"}) {
      partial.covered.push_back({.contributor = name,
                                 .update_id = "u",
                                 .weight = updates[partial.covered.size()].weight,
                                 .digest = std::string(32, '\7')});
    }
    return partial;
  }
  static absl::Status Read(std::string_view bytes) { return ReadPartial(bytes, {}).status(); }
};

TEST_F(HostilePartialTest, EveryCutAndEveryFlippedByteIsRefused) {
  const std::string bytes = WritePartial(Named());
  ASSERT_TRUE(Read(bytes).ok()) << Read(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(Read(bytes.substr(0, i)).ok()) << "cut at " << i;
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(Read(flipped).ok()) << "flipped at " << i;
  }
  EXPECT_FALSE(Read(bytes + '\0').ok());
}

TEST_F(HostilePartialTest, ErrorsNameTensorPositionAndLimit) {
  RoundPartial partial = Named();
  partial.tensors[0].rows.back() = 1000;
  EXPECT_THAT(Read(WritePartial(partial)).message(),
              HasSubstr("tensor \"t\": slice 0 of the partial aggregate has row 1000 at position"));
  partial = Named();
  partial.covered[1].contributor = "a";
  EXPECT_THAT(Read(WritePartial(partial)).message(),
              HasSubstr("a covered update at position 1 of contributor \"a\", not above the one "
                        "before it"));
  partial = Named();
  partial.covered[0].weight += 1;
  EXPECT_THAT(Read(WritePartial(partial)).message(), HasSubstr("total weight that is not the sum"));
  std::string version = WritePartial(Named());
  version[8] = 2;
  EXPECT_EQ(ErrorReason(Read(version)), "UNSUPPORTED_PARTIAL_VERSION");
  std::string digest = WritePartial(Named());
  digest.back() = static_cast<char>(digest.back() ^ 1);
  EXPECT_THAT(Read(digest).message(), HasSubstr("the digest at its end"));
}

TEST_F(HostilePartialTest, OtherSpecificationsAreRefusedByName) {
  const RoundPartial partial = Named();
  const std::string bytes = WritePartial(partial);
  const auto read_as = [&](const std::function<void(TensorSpec&)>& change) {
    std::vector<TensorSpec> specs = partial.specs;
    change(specs[0]);
    return ReadPartial(bytes, {.specs = specs}).status();
  };
  EXPECT_TRUE(read_as([](TensorSpec& spec) { spec.plan = "sweep"; }).ok());
  EXPECT_THAT(read_as([](TensorSpec& spec) { spec.op = "sum"; }).message(),
              HasSubstr("has operator \"mean_of_contributors\", not \"sum\""));
  EXPECT_THAT(read_as([](TensorSpec& spec) { spec.value_type = ValueType::kF64; }).message(),
              HasSubstr("has value type \"f32\", not \"f64\""));
  EXPECT_EQ(ErrorReason(read_as([](TensorSpec& spec) {
              spec.dense_shape = {1001, 2};
            })),
            "SPEC_MISMATCH");
  EXPECT_EQ(ErrorReason(read_as([](TensorSpec& spec) { spec.name = "other"; })), "SPEC_MISMATCH");
}

TEST_F(HostilePartialTest, MemoryIsReservedBeforeItIsTaken) {
  const std::string bytes = WritePartial(Named());
  uint64_t most = 0;
  const auto count = [&](uint64_t asked) {
    most = std::max(most, asked);
    return absl::OkStatus();
  };
  const auto read = ReadPartial(bytes, {.specs = {}, .reserve = count});
  ASSERT_TRUE(read.ok());
  EXPECT_GE(most, read->tensors[0].rows.size() * (sizeof(uint64_t) + 3 * sizeof(double)));
  const auto refuse = [](uint64_t) { return absl::ResourceExhaustedError("full"); };
  EXPECT_TRUE(
      absl::IsResourceExhausted(ReadPartial(bytes, {.specs = {}, .reserve = refuse}).status()));
}

// --- Cells and blocks ---

// Cells are doubles below 2^970, and what they do not hold is in the side table.
TEST_F(PartialBytesTest, KeepEverySumOfCellsAndSideEntries) {
  Partial state;
  state.spec = MakeSpec("mean_of_contributors", ValueType::kF64, 100, 2);
  state.contributors = 3;
  state.total_weight.Add(3.0);
  const std::vector<double> cells = {1.5, 0x1p969, 0.0, -0x1p-1074, 1.0, 2.0};
  const std::vector<double> row_cells = {1.0, 2.0, 3.0};
  state.rows = {3, 7, 99};
  const auto bytes_of = [](const std::vector<double>& values) {
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    return HostVector<std::byte>(begin, begin + values.size() * sizeof(double));
  };
  state.cells = bytes_of(cells);
  state.row_cells = bytes_of(row_cells);
  state.side = {{3, 1, 969, 3}, {7, 2, -60, 1}, {99, 0, -1000, 7}, {99, 0, 1000, -9}};
  const std::string bytes = WritePartial(Wrap(state, 3));
  EXPECT_TRUE(WritePartial(Wrap(WithSlots(state), 3)) == bytes);
  const auto again = ReadPartial(bytes, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(WritePartial(*again) == bytes);
  for (const double cell : AsDoubles(again->tensors[0].cells))
    EXPECT_LT(std::abs(cell), kCellLimit);
  for (const auto& backend : backends_) {
    const auto aggregator = testing::NewAggregator(*backend, state.spec);
    ASSERT_TRUE(aggregator->Merge(again->tensors[0]).ok());
    EXPECT_TRUE(WritePartial(Wrap(*aggregator->Snapshot(), 3)) == bytes) << backend->info().name;
  }
}

TEST(PartialBlock, EveryFormIsReadBack) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ExactNumber> numbers(1 + random() % kBlockSlots);
    const int spread = static_cast<int>(random() % 40) * static_cast<int>(random() % 40);
    for (ExactNumber& number : numbers) {
      WideInteger value;
      for (uint64_t n = random() % 3; n > 0; --n) {
        value.AddScaled(static_cast<int64_t>(random()) >> (random() % 64),
                        static_cast<int>(random() % (spread + 1)) - spread / 2);
      }
      number = MakeExact(value);
    }
    const BlockKind kind{.raw = kAllValueTypes[random() % std::size(kAllValueTypes)]};
    std::string bytes;
    WriteBlock(numbers, kind, bytes);
    std::string_view rest = bytes;
    std::vector<ExactNumber> read(numbers.size());
    ASSERT_TRUE(ReadBlock(rest, kind, read).ok());
    EXPECT_EQ(rest, "");
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_TRUE(ToWideInteger(read[i]) == ToWideInteger(numbers[i])) << i;
    }
  }
}

TEST(PartialBlock, ThereIsOneWayToWriteIt) {
  const auto read = [](std::vector<int> bytes, BlockKind kind = {.raw = ValueType::kF32}) {
    std::string text(bytes.begin(), bytes.end());
    std::string_view rest = text;
    std::vector<ExactNumber> numbers(1);
    return std::string(ReadBlock(rest, kind, numbers).message());
  };
  constexpr const char* kOther = "is not in the canonical form of its numbers";
  EXPECT_EQ(read({1, 0, 0, 0, 5}), "") << "5 in one byte";
  EXPECT_EQ(read({2, 0, 0, 0, 5, 0}), kOther) << "5 in two bytes";
  EXPECT_EQ(read({1, 0, 255, 255, 10}), kOther) << "10 halves";
  EXPECT_EQ(read({255, 255, 0, 0, 160, 64}), kOther) << "a raw 5, one byte longer";
  EXPECT_EQ(read({255, 255, 0, 0, 0, 128}), kOther) << "a raw -0";
  EXPECT_EQ(read({255, 255, 0, 0, 192, 127}), "has a raw value that is not finite");
  EXPECT_EQ(read({255, 255, 0, 0, 160, 64}, {.raw = ValueType::kF32, .only_raw = true}), "");
  EXPECT_THAT(read({1, 0, 0, 0, 5}, {.raw = ValueType::kF32, .only_raw = true}),
              HasSubstr("has the form 1, which it cannot have"));
  EXPECT_THAT(read({254, 255, 1, 67, 1, 0, 0, 0}), HasSubstr("a digit at position 67"));
  EXPECT_THAT(read({17, 1}), HasSubstr("has the form 273"));
  EXPECT_THAT(read({1, 0, 0, 128, 5}), HasSubstr("outside of 2^-1074 to 2^1070"));
}

// --- Vectors ---

TEST(PartialVectors, AreReadAndWrittenAsInPython) {
  const auto file = [](const char* name) {
    std::ostringstream text;
    text << std::ifstream(std::string(SPARSEAGG_SOURCE_DIR "/tests/vectors/") + name,
                          std::ios::binary)
                .rdbuf();
    return text.str();
  };
  const std::string all = file("partials.bin");
  const auto cases = nlohmann::json::parse(file("partials.json"));
  ASSERT_GE(cases.size(), 10u);
  const auto reference = *MakeReferenceBackend({});
  for (const auto& vector : cases) {
    const std::string bytes = all.substr(vector.at("offset"), vector.at("bytes"));
    const auto read = ReadPartial(bytes, {});
    ASSERT_TRUE(read.ok()) << vector.at("name") << ": " << read.status();
    EXPECT_TRUE(WritePartial(*read) == bytes) << vector.at("name");
    EXPECT_EQ(absl::BytesToHexString(std::string(PartialDigest(bytes))), vector.at("digest"));
    EXPECT_EQ(read->tensors.front().contributors, vector.at("contributors"));
    for (size_t i = 0; i < read->tensors.size(); ++i) {
      const auto& tensor = vector.at("tensors").at(i);
      EXPECT_EQ(read->specs[i].name, tensor.at("name"));
      EXPECT_EQ(read->tensors[i].rows.size(), tensor.at("rows"));
      // The result, rounded once, from the exact numbers of another implementation.
      const auto aggregator = testing::NewAggregator(*reference, *MakeReduceSpec(read->specs[i]));
      ASSERT_TRUE(aggregator->Merge(read->tensors[i]).ok());
      const auto result = std::move(*aggregator).Report();
      ASSERT_TRUE(result.ok()) << result.status();
      const std::string_view values(reinterpret_cast<const char*>(result->tensor.values.data()),
                                    result->tensor.values.size());
      EXPECT_EQ(absl::BytesToHexString(Sha256().Bytes(values).Finish()), tensor.at("sha256"))
          << vector.at("name");
    }
  }
}

}  // namespace
}  // namespace sparseagg
