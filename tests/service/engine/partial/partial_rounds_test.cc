// Rounds that publish their partial aggregate, and rounds that take it: a tree of engines gives the
// bytes and the digests of one engine.
#include <cstring>
#include <random>
#include <type_traits>

#include "service/engine/partial/partial_body.h"
#include "service/store/durable_store.h"
#include "sparse/ops/all.h"
#include "sparse/values.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

constexpr char kRound[] = "rounds/r";

absl::StatusOr<Receipt> SubmitPartial(Engine& engine, std::string_view partial,
                                      const std::string& node, float weight = 1) {
  const EncodedTensor body = {PartialHeader(partial.size()), {}, ByteChain(&partial, 1)};
  return engine.Submit(
      {.round = kRound, .contributor = node, .update_id = "partial", .weight = weight}, {body});
}

std::shared_ptr<const PublishedResult> Publish(TestEngine& engine) {
  return engine.SealAndWait(kRound);
}

// --- Trees ---

// One tensor for each operator and value type that are possible together.
std::vector<TensorSpec> AllSpecs() {
  std::vector<TensorSpec> specs;
  for (const std::string_view op : AllOps::kNames) {
    for (const ValueType type : kAllValueTypes) {
      const std::string name = std::string(op) + "." + std::string(ValueTypeName(type));
      specs.push_back(Sparse(name, 300'000, std::string(op), type));
      specs.back().dense_shape.push_back(3);
    }
  }
  return specs;
}

// Values of the type: floating ones of far exponents, whose sums no double holds.
std::vector<std::byte> ValuesOf(ValueType type, size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count * SizeOf(type));
  WithValueType(type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    for (size_t i = 0; i < count; ++i) {
      V value{};
      if constexpr (ValueTraits<V>::kFloating) {
        const int spread = type == ValueType::kF16 ? 12 : 60;
        const int exponent = static_cast<int>(random() % (2 * spread)) - spread - 10;
        const auto significand = static_cast<int64_t>(random() % 4001) - 2000;
        value = ValueTraits<V>::Narrow(RoundScaled(significand, exponent, ValueTraits<V>::kFormat));
      } else {
        value = static_cast<V>(random() % 1000) - (std::is_signed_v<V> ? 500 : 0);
      }
      std::memcpy(bytes.data() + i * sizeof(V), &value, sizeof(V));
    }
  });
  return bytes;
}

constexpr size_t kRows = 12;  // of each tensor of an update; some repeat, some are hot

std::vector<TestUpdate> UpdatesOf(const std::vector<TensorSpec>& specs, int count) {
  std::mt19937_64 random(7);
  std::vector<TestUpdate> updates;
  for (int i = 0; i < count; ++i) {
    TestUpdate& update =
        updates.emplace_back(kRound, "c" + std::to_string(i), static_cast<float>(i % 4));
    for (const TensorSpec& spec : specs) {
      std::vector<int64_t> rows(kRows);
      for (int64_t& row : rows) row = static_cast<int64_t>(random() % (random() % 4 ? 300'000 : 9));
      update.Add(spec, rows, ValuesOf(spec.value_type, kRows * 3, random));
    }
  }
  return updates;
}

void ExpectSame(const PublishedResult& expected, const PublishedResult& actual,
                const std::string& what) {
  ASSERT_EQ(expected.tensors.size(), actual.tensors.size());
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    EXPECT_TRUE(expected.tensors[i] == actual.tensors[i])
        << what << ": " << expected.spec.tensors[i].name;
  }
  EXPECT_EQ(expected.manifest.contributors, actual.manifest.contributors) << what;
  EXPECT_EQ(expected.manifest.total_weight, actual.manifest.total_weight) << what;
  EXPECT_EQ(expected.manifest.infinite_values, actual.manifest.infinite_values) << what;
  EXPECT_EQ(expected.manifest.updates_digest, actual.manifest.updates_digest) << what;
  EXPECT_EQ(expected.manifest.result_digest, actual.manifest.result_digest) << what;
}

TEST(PartialTrees, GiveTheBytesAndDigestsOfOneServer) {
  std::mt19937_64 random(44);
  const std::vector<TensorSpec> specs = AllSpecs();
  std::vector<TestUpdate> updates = UpdatesOf(specs, 24);
  TestEngine one("reference");
  TestEngine one_partial("cpu");
  one.Create(RoundSpec{.tensors = specs});
  one_partial.Create(RoundSpec{.tensors = specs, .publish_partial = true});
  for (TestUpdate& update : updates) {
    ASSERT_TRUE(one.Submit(update).ok());
    ASSERT_TRUE(one_partial.Submit(update).ok());
  }
  const auto expected = Publish(one);
  const auto expected_partial = Publish(one_partial);

  for (const int nodes : {1, 2, 3, 8}) {
    const std::string what = std::to_string(nodes) + " leaves";
    TestEngine root("cpu");
    TestEngine middle("reference");  // a node between leaves and root
    root.Create(RoundSpec{.tensors = specs});
    middle.Create(RoundSpec{.tensors = specs, .publish_partial = true});
    std::vector<std::unique_ptr<TestEngine>> leaves;
    for (int i = 0; i < nodes; ++i) {
      leaves.push_back(std::make_unique<TestEngine>(i % 3 == 1 ? "reference" : "cpu"));
      leaves.back()->Create(RoundSpec{.tensors = specs, .publish_partial = true});
    }
    for (TestUpdate& update : updates) {
      // One place more than leaves: some updates go to the node above.
      const size_t place = random() % (nodes + 1);
      TestEngine& engine = place == static_cast<size_t>(nodes) ? middle : *leaves[place];
      const auto receipt = engine.Submit(update);
      ASSERT_TRUE(receipt.ok()) << receipt.status();
    }
    for (int i = 0; i < nodes; ++i) {
      const auto partial = Publish(*leaves[i]);
      EXPECT_EQ(partial->manifest.result_digest, PartialDigest(partial->partial));
      const auto receipt =
          SubmitPartial(middle.engine(), partial->partial, "leaf-" + std::to_string(i));
      ASSERT_TRUE(receipt.ok()) << receipt.status();
    }
    const auto merged = Publish(middle);
    EXPECT_TRUE(merged->partial == expected_partial->partial) << what;
    const auto receipt = SubmitPartial(root.engine(), merged->partial, "middle");
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    EXPECT_EQ(root->GetRound(kRound)->contributors, 24u);
    EXPECT_EQ(root->GetRound(kRound)->tensors[0].nnz_received, 24u * kRows);
    ExpectSame(*expected, *Publish(root), what);
  }
}

// --- One round ---

class PartialRoundTest : public ::testing::Test {
 protected:
  // The partial aggregate of a leaf with these contributors, each of whom adds 1 to row 5.
  std::string PartialOf(const std::vector<std::string>& contributors, RoundSpec spec = {}) {
    TestEngine leaf;
    return PartialOn(leaf, contributors, std::move(spec));
  }
  std::string PartialOn(TestEngine& leaf, const std::vector<std::string>& contributors,
                        RoundSpec spec = {}) {
    if (spec.tensors.empty()) spec.tensors = {spec_};
    spec.publish_partial = true;
    leaf.Create(spec);
    for (const std::string& name : contributors) EXPECT_TRUE(leaf.Submit(Update(name)).ok());
    return Publish(leaf)->partial;
  }
  TestUpdate Update(const std::string& contributor) const {
    TestUpdate update(kRound, contributor);
    update.Add<float>(spec_, {5}, {1});
    return update;
  }
  absl::StatusOr<Receipt> Submit(std::string_view partial, const std::string& node) {
    return SubmitPartial(engine_.engine(), partial, node);
  }
  std::unique_ptr<UpdateStore> OpenStore() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void OpenDurable(RoundSpec spec = {}) {
    if (spec.tensors.empty()) spec.tensors = {spec_};
    spec.durability = Durability::kDurable;
    engine_.Create(spec);
  }
  std::vector<float> Result() { return testing::Values<float>(Publish(engine_)->tensors[0]); }

  const TensorSpec spec_ = Sparse("t", 100);
  testing::TemporaryFolder folder_;
  TestEngine engine_{testing::MakeBackend("cpu"), [this] { return OpenStore(); }};
};

TEST_F(PartialRoundTest, AResendIsAnsweredWithTheFirstReceiptAndCountedOnce) {
  OpenDurable();
  const std::string partial = PartialOf({"a", "b"}, {.durability = Durability::kMemory});
  const auto first = Submit(partial, "leaf");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->duplicate);
  const auto again = Submit(partial, "leaf");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate);
  EXPECT_EQ(again->digest, first->digest);
  EXPECT_EQ(again->sequence, first->sequence);
  EXPECT_THAT(Submit(PartialOf({"a"}), "leaf").status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT"));
  EXPECT_THAT(Result(), ElementsAre(2));
}

TEST_F(PartialRoundTest, AContributorOfTwoNodesIsRefusedByName) {
  OpenDurable();
  ASSERT_TRUE(engine_.Submit(Update("direct")).ok());
  ASSERT_TRUE(Submit(PartialOf({"a", "b"}), "leaf-1").ok());
  const auto overlap = Submit(PartialOf({"b", "c"}), "leaf-2").status();
  EXPECT_THAT(overlap, FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTORS_OVERLAP"));
  EXPECT_THAT(overlap.message(),
              HasSubstr("covers contributor \"b\", which the one of \"leaf-1\" covers already"));
  EXPECT_EQ(ErrorMetadata(overlap)["contributor"], "b");
  EXPECT_THAT(Submit(PartialOf({"direct"}), "leaf-2").status().message(),
              HasSubstr("\"direct\", which has been counted here by itself"));
  EXPECT_THAT(Submit(PartialOf({"leaf-2"}), "leaf-2").status().message(),
              HasSubstr("has the name of the sender itself"));
  const auto late = engine_.Submit(Update("a")).status();
  EXPECT_THAT(late, FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED"));
  EXPECT_THAT(late.message(), HasSubstr("in the partial aggregate of \"leaf-1\""));
  EXPECT_THAT(Submit(PartialOf({"x"}), "a").status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED"));
  ASSERT_TRUE(Submit(PartialOf({"c"}), "leaf-2").ok()) << "nothing of a refused one is counted";
  EXPECT_EQ(engine_->GetRound(kRound)->contributors, 4u);
  EXPECT_THAT(Result(), ElementsAre(4));
}

TEST_F(PartialRoundTest, WhatDoesNotBelongIsRefused) {
  OpenDurable();
  TensorSpec other = spec_;
  other.op = "min";
  EXPECT_THAT(Submit(PartialOf({}, {.tensors = {other}}), "leaf").status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "SPEC_MISMATCH"));
  EXPECT_THAT(Submit("spagpart", "leaf").status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL"));
  EXPECT_THAT(SubmitPartial(engine_.engine(), PartialOf({"a"}), "leaf", 2).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_WEIGHT"));
  const auto reduction = *engine_->NewReduction({.tensors = {spec_}});
  EXPECT_THAT(Submit(WritePartial(*reduction->Snapshot()), "leaf").status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "PARTIAL_NOT_NAMED"));
  const std::string_view bytes = "x";
  EXPECT_THAT(reduction->Add({.contributor = "a"}, {{PartialHeader(1), {}, {&bytes, 1}}}),
              FailsWith(absl::StatusCode::kInvalidArgument, "PARTIAL_NOT_ALLOWED"));
  EXPECT_THAT(engine_->NewReduction({.tensors = {spec_}, .publish_partial = true}).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "PARTIAL_NOT_ALLOWED"));
  EXPECT_THAT(engine_
                  ->CreateRound({.round_id = "q",
                                 .request_id = "",
                                 .spec = {.tensors = {spec_},
                                          .durability = Durability::kDurable,
                                          .keep_updates = true,
                                          .publish_partial = true}})
                  .status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
  EXPECT_EQ(engine_->GetRound(kRound)->contributors, 0u);
  EXPECT_THAT(engine_->Stats().staged_bytes, 0u);
}

TEST_F(PartialRoundTest, CoveredContributorsFillARound) {
  OpenDurable({.policy = {.max_contributors = 3}});
  ASSERT_TRUE(Submit(PartialOf({"a", "b"}), "leaf-1").ok());
  EXPECT_THAT(Submit(PartialOf({"c", "d"}), "leaf-2").status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_FULL"));
  ASSERT_TRUE(engine_.Submit(Update("e")).ok());
  EXPECT_THAT(engine_.Submit(Update("f")).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_FULL"));
  EXPECT_THAT(Result(), ElementsAre(3));
}

TEST_F(PartialRoundTest, AGoalIsReachedByTheContributorsOfAPartial) {
  OpenDurable({.policy = {.goal_contributors = 2}});
  ASSERT_TRUE(Submit(PartialOf({"a", "b"}), "leaf").ok());
  const RoundSnapshot round = engine_.WaitUntilFinal(kRound);
  EXPECT_EQ(round.state, RoundState::kPublished) << round.failure;
  EXPECT_EQ(round.manifest->contributors, 2u);
}

TEST_F(PartialRoundTest, AnAcknowledgedPartialSurvivesTheProcess) {
  OpenDurable({.keep_updates = true});
  const std::string partial = PartialOf({"a", "b"});
  ASSERT_TRUE(engine_.Submit(Update("direct")).ok());
  const auto receipt = Submit(partial, "leaf");
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_->GetRound(kRound)->contributors, 3u);
  const auto again = Submit(partial, "leaf");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate);
  EXPECT_THAT(Submit(PartialOf({"a"}), "leaf-2").status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTORS_OVERLAP"));
  EXPECT_THAT(engine_.Submit(Update("b")).status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED"));
  EXPECT_THAT(Result(), ElementsAre(3));
  const auto verified = engine_->VerifyRound(kRound, [] { return false; });
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->contributors, 3u);
}

TEST_F(PartialRoundTest, AnUploadInChunksIsTheSameUpdate) {
  for (const Durability durability : {Durability::kMemory, Durability::kDurable}) {
    TestEngine memory;
    TestEngine& root = durability == Durability::kMemory ? memory : engine_;
    root.Create(RoundSpec{.tensors = {spec_}, .durability = durability});
    const std::string partial = PartialOf({"a", "b"});
    const UpdateHeader header = {.round = kRound, .contributor = "leaf", .update_id = "partial"};
    auto upload = root->BeginUpload(header, {PartialHeader(partial.size())});
    ASSERT_TRUE(upload.ok()) << upload.status();
    ASSERT_TRUE((*upload)->Append(0, partial.substr(0, 10), {}).ok());
    upload = root->BeginUpload(header, {PartialHeader(partial.size())});  // resumed
    ASSERT_EQ((*upload)->committed_offset(), 10u);
    ASSERT_TRUE((*upload)->Append(10, partial.substr(10), {}).ok());
    const auto receipt = (*upload)->Finish();
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    const auto again = SubmitPartial(root.engine(), partial, "leaf");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->duplicate);
    EXPECT_THAT(testing::Values<float>(Publish(root)->tensors[0]), ElementsAre(2));
  }
}

TEST_F(PartialRoundTest, APublishedPartialSurvivesTheProcess) {
  const std::string partial = PartialOn(engine_, {"a", "b"}, {.durability = Durability::kDurable});
  ASSERT_TRUE(engine_.Restart().ok());
  const auto result = engine_->Result(kRound);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE((*result)->partial == partial);
  EXPECT_EQ((*result)->manifest.result_digest, PartialDigest(partial));
  EXPECT_THAT(engine_->VerifyRound(kRound, [] { return false; }).status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "UPDATES_NOT_KEPT"));
}

// A leaf's sum may leave the range of a checked integer, and the sum of all leaves return to it.
TEST_F(PartialRoundTest, OnlyTheRootChecksForOverflow) {
  const TensorSpec spec = Sparse("n", 10, "sum", ValueType::kI32);
  engine_.Create(RoundSpec{.tensors = {spec}});
  for (const int sign : {1, -1}) {
    TestEngine leaf;
    leaf.Create(RoundSpec{.tensors = {spec}, .publish_partial = true});
    for (int i = 0; i < 3; ++i) {
      const std::string name = std::to_string(sign) + "." + std::to_string(i);
      ASSERT_TRUE(
          leaf.Submit(TestUpdate(kRound, name).Add<int32_t>(spec, {1}, {sign * 2'000'000'000}))
              .ok());
    }
    ASSERT_TRUE(Submit(Publish(leaf)->partial, sign > 0 ? "up" : "down").ok());
  }
  EXPECT_THAT(testing::Values<int32_t>(Publish(engine_)->tensors[0]), ElementsAre(0));
}

}  // namespace
}  // namespace sparseagg
