// Updates in chunks: interrupted and resumed, damaged, abandoned, and contested by several streams.
#include "service/engine/upload/upload.h"

#include <chrono>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "service/engine/ingest/payload_bytes.h"
#include "service/engine/upload/upload_table.h"
#include "service/store/checksums/crc32c.h"
#include "tests/service/engine/testing.h"
#include "tests/support/manual_executor.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

class UploadTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<Upload>> Begin() { return Begin(update_); }
  absl::StatusOr<std::shared_ptr<Upload>> Begin(const TestUpdate& update) {
    return engine_->BeginUpload(update.header, update.headers());
  }

  absl::Status SendInChunks(const TestUpdate& update) {
    const std::string bytes = update.byte_string();
    const auto upload = *Begin(update);
    constexpr size_t kChunk = 100'003;  // cuts values, and rows
    for (size_t at = 0; at < bytes.size(); at += kChunk) {
      EXPECT_TRUE(upload->Append(at, bytes.substr(at, kChunk), std::nullopt).ok());
    }
    return upload->Finish().status();
  }

  TestEngine engine_;
  const TensorSpec emb_ = Sparse("emb", 10);
  const TensorSpec bias_{.name = "bias", .dense_shape = {2}, .sparse_dim = 0};
  const std::string round_ = engine_.Create({emb_, bias_}).name;
  TestUpdate update_ = TestUpdate(round_, "a", 2.0f)
                           .Add<float>(bias_, {}, {5, 6})  // not the order of the specification
                           .Add<float>(emb_, {3, 4}, {1, 2});
  const std::string bytes_ = update_.byte_string();
};

TEST_F(UploadTest, CountsLikeAnUpdateInOnePiece) {
  auto upload = *Begin();
  EXPECT_EQ(upload->total_bytes(), bytes_.size());
  for (uint64_t at = 0; at < bytes_.size(); at += 5) {
    const std::string_view chunk = std::string_view(bytes_).substr(at, 5);
    ASSERT_TRUE(upload->Append(at, chunk, Crc32c(chunk)).ok());
  }
  EXPECT_EQ(upload->committed_offset(), upload->total_bytes());
  const auto receipt = upload->Finish();
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_FALSE(receipt->duplicate);
  const auto whole = engine_.Submit(update_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->duplicate);
  EXPECT_EQ(whole->digest, receipt->digest);
  const auto result = engine_.SealAndWait(round_);
  EXPECT_THAT(Values<float>(result->tensors[0]), ElementsAre(2, 4));
  EXPECT_THAT(Values<float>(result->tensors[1]), ElementsAre(10, 12));
}

TEST_F(UploadTest, GoesOnWhereABrokenStreamStopped) {
  auto first = *Begin();
  ASSERT_TRUE(first->Append(0, bytes_.substr(0, 10), std::nullopt).ok());
  first.reset();
  auto second = *Begin();
  EXPECT_EQ(second->committed_offset(), 10u);
  ASSERT_TRUE(second->Append(10, bytes_.substr(10), std::nullopt).ok());
  EXPECT_TRUE(second->Finish().ok());
}

TEST_F(UploadTest, BelongsToTheStreamThatBeganLast) {
  auto first = *Begin();
  auto second = *Begin();
  const auto taken_over = FailsWith(absl::StatusCode::kAborted, "UPLOAD_TAKEN_OVER");
  EXPECT_THAT(first->Append(0, bytes_, std::nullopt), taken_over);
  ASSERT_TRUE(second->Append(0, bytes_, std::nullopt).ok());
  EXPECT_THAT(first->Finish().status(), taken_over);
  EXPECT_TRUE(second->Finish().ok());
}

TEST_F(UploadTest, ResumesACountedUpdateAtItsEnd) {
  ASSERT_TRUE(engine_.Submit(update_).ok());
  auto upload = *Begin();
  EXPECT_EQ(upload->committed_offset(), bytes_.size());
  EXPECT_TRUE(upload->Append(bytes_.size(), "", std::nullopt).ok());
  EXPECT_THAT(upload->Append(0, "x", std::nullopt),
              FailsWith(absl::StatusCode::kInvalidArgument, "OFFSET_MISMATCH"));
  EXPECT_TRUE(upload->Finish()->duplicate);
  engine_.SealAndWait(round_);
  EXPECT_TRUE((*Begin())->Finish()->duplicate) << "after publication, too";
}

TEST_F(UploadTest, RefusesAnotherUpdateOfACountedContributor) {
  ASSERT_TRUE(engine_.Submit(update_).ok());
  update_.header.update_id = "u2";
  EXPECT_THAT(Begin().status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "CONTRIBUTOR_ALREADY_COUNTED"));
  update_.header.update_id = "u1";
  update_.header.weight = 3.0f;
  EXPECT_THAT(Begin().status(), FailsWith(absl::StatusCode::kInvalidArgument, "DIGEST_CONFLICT"));
}

TEST_F(UploadTest, RefusesOtherHeadersForTheSameUpdate) {
  auto upload = *Begin();
  TestUpdate other =
      TestUpdate(round_, "a", 2.0f).Add<float>(bias_, {}, {5, 6}).Add<float>(emb_, {3}, {1});
  const auto conflict = FailsWith(absl::StatusCode::kInvalidArgument, "UPLOAD_CONFLICT");
  EXPECT_THAT(Begin(other).status(), conflict);
  TestUpdate heavier = update_;
  heavier.header.weight = 9.0f;
  EXPECT_THAT(Begin(heavier).status(), conflict);
  EXPECT_TRUE(upload->Append(0, bytes_, std::nullopt).ok()) << "the first goes on";
}

TEST_F(UploadTest, TakesChunksInOrderAndWithinTheStatedSize) {
  auto upload = *Begin();
  const auto mismatch = FailsWith(absl::StatusCode::kInvalidArgument, "OFFSET_MISMATCH");
  EXPECT_THAT(upload->Append(1, "x", std::nullopt), mismatch);
  ASSERT_TRUE(upload->Append(0, bytes_.substr(0, 4), std::nullopt).ok());
  EXPECT_THAT(upload->Append(0, bytes_.substr(0, 4), std::nullopt), mismatch);
  EXPECT_THAT(upload->Append(4, bytes_, std::nullopt),
              FailsWith(absl::StatusCode::kInvalidArgument, "UPLOAD_TOO_LONG"));
  EXPECT_THAT(upload->Finish().status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "UPLOAD_INCOMPLETE"));
  ASSERT_TRUE(upload->Append(4, bytes_.substr(4), std::nullopt).ok());
  EXPECT_TRUE(upload->Finish().ok());
  EXPECT_THAT(upload->Finish().status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "UPLOAD_ENDED"));
}

TEST_F(UploadTest, FindsADamagedChunkAndTakesItWhenSentAgain) {
  auto upload = *Begin();
  EXPECT_THAT(upload->Append(0, bytes_, Crc32c(bytes_) ^ 1),
              FailsWith(absl::StatusCode::kDataLoss, "CHECKSUM_MISMATCH"));
  EXPECT_EQ(upload->committed_offset(), 0u);
  EXPECT_TRUE(upload->Append(0, bytes_, Crc32c(bytes_)).ok());
}

TEST_F(UploadTest, RefusesBadHeadersBeforeAnyByte) {
  update_.tensor_header(1).nnz = 1000;
  EXPECT_THAT(Begin().status(), FailsWith(absl::StatusCode::kInvalidArgument, "SIZE_MISMATCH"));
  EXPECT_EQ(engine_.SealAndWait(round_)->manifest.rejected.at("SIZE_MISMATCH"), 1u);
}

// Values of more than 1 MiB take another path into memory.
TEST_F(UploadTest, LargeOnesAreCheckedToTheLastValue) {
  constexpr int64_t kRows = 300'000;
  const TensorSpec spec = Sparse("large", kRows);
  const std::string round = engine_.Create({spec}).name;
  std::vector<int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> values(kRows);
  std::iota(values.begin(), values.end(), 0.25f);
  const auto send = [&](const std::string& contributor) {
    return SendInChunks(TestUpdate(round, contributor).Add<float>(spec, rows, values));
  };
  for (const size_t entry : {size_t{0}, size_t{25'001}, values.size() - 1}) {
    const float good = std::exchange(values[entry], std::numeric_limits<float>::infinity());
    const absl::Status status = send("a");
    EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument, "NON_FINITE_VALUE"));
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr(absl::StrCat("entry ", entry, " ")));
    values[entry] = good;
  }
  ASSERT_TRUE(send("a").ok());
  ASSERT_TRUE(send("b").ok());
  const auto result = engine_.SealAndWait(round);
  for (float& value : values) value *= 2;
  EXPECT_EQ(Values<float>(result->tensors[0]), values);
}

// Rows in ascending order are kept in two bytes each until a row descends.
TEST_F(UploadTest, LargeOnesMayBeInAnyOrder) {
  constexpr int64_t kRows = 200'000;
  const TensorSpec spec = Sparse("large", kRows);
  const std::string round = engine_.Create({spec}).name;
  std::vector<int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<float> values(kRows, 1.5f);
  int contributors = 0;
  const auto send = [&] {
    const absl::Status status =
        SendInChunks(TestUpdate(round, absl::StrCat(contributors)).Add<float>(spec, rows, values));
    contributors += status.ok() ? 1 : 0;
    return status;
  };
  ASSERT_TRUE(send().ok());
  for (const size_t at : {size_t{0}, size_t{12'500}, size_t{70'001}, rows.size() - 2}) {
    std::swap(rows[at], rows[at + 1]);
    EXPECT_TRUE(send().ok()) << at;
    for (const int64_t wrong : {int64_t{-1}, kRows}) {
      const int64_t right = std::exchange(rows[at], wrong);
      const absl::Status status = send();
      EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE"));
      EXPECT_THAT(std::string(status.message()),
                  ::testing::HasSubstr(absl::StrCat("index ", wrong, " at entry ", at, " ")));
      rows[at] = right;
    }
    std::swap(rows[at], rows[at + 1]);
    rows[at + 1] = rows[at];  // twice, and another one not at all
    EXPECT_TRUE(send().ok()) << at;
    rows[at + 1] = static_cast<int64_t>(at) + 1;
  }
  const auto result = engine_.SealAndWait(round);
  EXPECT_EQ(result->manifest.contributors, static_cast<uint64_t>(contributors));
  std::vector<float> expected(kRows, 1.5f * static_cast<float>(contributors));
  for (const size_t at : {size_t{0}, size_t{12'500}, size_t{70'001}, rows.size() - 2}) {
    expected[at] += 1.5f;
    expected[at + 1] -= 1.5f;
  }
  EXPECT_EQ(Values<float>(result->tensors[0]), expected);
}

TEST_F(UploadTest, StartsAfreshAfterBadBytes) {
  TestUpdate bad =
      TestUpdate(round_, "a", 2.0f).Add<float>(bias_, {}, {5, 6}).Add<float>(emb_, {3, 10}, {1, 2});
  auto upload = *Begin(bad);
  ASSERT_TRUE(upload->Append(0, bad.byte_string(), std::nullopt).ok());
  EXPECT_THAT(upload->Finish().status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INDEX_OUT_OF_RANGE"));
  auto again = *Begin();
  EXPECT_EQ(again->committed_offset(), 0u);
  ASSERT_TRUE(again->Append(0, bytes_, std::nullopt).ok());
  EXPECT_TRUE(again->Finish().ok());
}

TEST_F(UploadTest, EndsWithItsRound) {
  auto upload = *Begin();
  ASSERT_TRUE(upload->Append(0, bytes_, std::nullopt).ok());
  engine_.SealAndWait(round_);
  const auto not_open = FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN");
  EXPECT_THAT(upload->Finish().status(), not_open);
  EXPECT_THAT(Begin().status(), not_open);
  EXPECT_EQ(engine_->Result(round_).value()->manifest.contributors, 0u);
}

TEST_F(UploadTest, IsForgottenWhenNothingComesForLong) {
  auto idle = *Begin();
  ASSERT_TRUE(idle->Append(0, bytes_.substr(0, 10), std::nullopt).ok());
  engine_.clock.Advance(std::chrono::minutes(9));
  EXPECT_EQ((*Begin())->committed_offset(), 10u);
  auto active = *Begin();
  engine_.clock.Advance(std::chrono::minutes(11));
  EXPECT_EQ((*Begin())->committed_offset(), 0u);
  EXPECT_THAT(active->Append(10, "x", std::nullopt),
              FailsWith(absl::StatusCode::kAborted, "UPLOAD_EXPIRED"));
}

// Every start once visited all open uploads.
TEST_F(UploadTest, OthersAreLookedAtOnlyWhenTheTableIsFull) {
  testing::ManualExecutor executor;
  TestEngine engine;
  engine.options.executor = &executor;
  engine.options.limits.open_uploads_max = 2;
  const std::string round = engine.Create({emb_}).name;
  const auto begin = [&](const std::string& contributor) {
    TestUpdate update = TestUpdate(round, contributor).Add<float>(emb_, {1}, {1});
    return engine->BeginUpload(update.header, update.headers());
  };
  const auto idle = begin("idle").value();
  engine.clock.Advance(std::chrono::minutes(11));
  EXPECT_TRUE(begin("a").ok());
  EXPECT_EQ(engine->Stats().open_uploads, 2u);
  EXPECT_TRUE(begin("b").ok());
  EXPECT_EQ(engine->Stats().open_uploads, 2u);
  EXPECT_THAT(idle->Append(0, "x", std::nullopt),
              FailsWith(absl::StatusCode::kAborted, "UPLOAD_EXPIRED"));
  EXPECT_THAT(begin("c").status(), FailsWith(absl::StatusCode::kResourceExhausted, "UPLOADS_FULL"));
  executor.DropAll();
}

TEST_F(UploadTest, AnUpdateWithoutEntriesIsCompleteAtOnce) {
  TestUpdate empty = TestUpdate(round_, "a").Add<float>(bias_, {}, {}).Add<float>(emb_, {}, {});
  auto upload = *Begin(empty);
  EXPECT_EQ(upload->total_bytes(), 0u);
  EXPECT_TRUE(upload->Finish().ok());
  EXPECT_EQ(engine_.SealAndWait(round_)->manifest.contributors, 1u);
}

TEST_F(UploadTest, CountsOneOfManyStreamsThatRaceToFinish) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] {
      // Each stream takes the upload over until it has a receipt, as clients with a retry loop do.
      while (true) {
        const auto begun = Begin();
        if (!begun.ok()) {
          ASSERT_EQ(ErrorReason(begun.status()), "UPLOAD_BUSY");
          continue;
        }
        const uint64_t at = (*begun)->committed_offset();
        if (!(*begun)->Append(at, std::string_view(bytes_).substr(at), std::nullopt).ok()) continue;
        if ((*begun)->Finish().ok()) return;
      }
    });
  }
  threads.clear();
  const auto result = engine_.SealAndWait(round_);
  EXPECT_EQ(result->manifest.contributors, 1u);
  EXPECT_THAT(Values<float>(result->tensors[0]), ElementsAre(2, 4));
}

// An upload that could not reserve its memory becomes the oldest claim in the end, and continues.
TEST(MemoryPayloadTest, WhatCouldNotBeStagedKeepsItsPlaceAmongThoseThatNeedMemory) {
  Admission memory(100);
  Claim oldest = *memory.Announce(80);
  const auto no_memory = [] {
    return MakeError(absl::StatusCode::kResourceExhausted, "BACKEND_FULL", "no memory");
  };
  const auto bytes = MakeMemoryPayload(oldest, 40, {.bytes = 40, .stage = no_memory});
  const std::string chunk(10, 'x');
  const auto append = [&] {
    const std::string_view piece = chunk;
    return bytes->Append(ByteChain(&piece, 1));
  };
  ASSERT_TRUE(append().ok());
  EXPECT_EQ(bytes->arrived(), nullptr);
  Claim next = *memory.Announce(80);
  EXPECT_FALSE(next.Take(80).ok()) << "it would take what the oldest needs";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(append().ok());
  EXPECT_TRUE(oldest.Take(40).ok());
}

TEST(UploadTableTest, AnotherRoundOfTheSameNameKeepsItsUploads) {
  const Limits limits;
  TenantTable tenants([](std::string_view) { return TenantLimits{}; }, 1'000'000, 1'000'000);
  UploadTable table(limits);
  const auto begin = [&](const int* round) {
    UploadArgs args;
    args.header = {.round = "rounds/r", .contributor = "c", .update_id = "u"};
    args.round = round;
    args.total_bytes = 2;
    args.now = [] { return std::chrono::steady_clock::now(); };
    return table.BeginOrResume(std::move(args), tenants.Of(""), [] { return nullptr; }).value();
  };
  const int deleted = 0;
  const int again = 0;
  const auto old_upload = begin(&deleted);
  ASSERT_TRUE(old_upload->Append(0, "x", std::nullopt).ok());
  const auto new_upload = begin(&again);
  EXPECT_EQ(new_upload->committed_offset(), 0u) << "it is of another round";
  // The first stream ends late.
  table.DropRound("rounds/r", &deleted, absl::AbortedError("the round has ended"));
  EXPECT_FALSE(old_upload->Append(1, "y", std::nullopt).ok());
  EXPECT_TRUE(new_upload->Append(0, "xy", std::nullopt).ok());
  EXPECT_EQ(table.size(), 1u);
}

TEST(UploadLimitTest, KeepsToTheNumberOfOpenUploads) {
  TestEngine engine;
  engine.options.limits.open_uploads_max = 2;
  const TensorSpec spec = Sparse("emb", 10);
  const std::string round = engine.Create({spec}).name;
  const auto begin = [&](const std::string& contributor) {
    TestUpdate update(round, contributor);
    update.Add<float>(spec, {1}, {1});
    return engine->BeginUpload(update.header, update.headers());
  };
  auto a = begin("a");
  auto b = begin("b");
  ASSERT_TRUE(a.ok() && b.ok());
  const absl::Status full = begin("c").status();
  EXPECT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "UPLOADS_FULL"));
  EXPECT_GT(RetryAfterMs(full), 0u);
  TestUpdate update(round, "a");
  update.Add<float>(spec, {1}, {1});
  ASSERT_TRUE((*a)->Append(0, update.byte_string(), std::nullopt).ok());
  ASSERT_TRUE((*a)->Finish().ok());
  EXPECT_TRUE(begin("c").ok());
}

// An update of many entries, whose memory is large beside its records.
class LargeUploadTest : public ::testing::Test {
 protected:
  static constexpr int64_t kEntries = 10'000;

  TestUpdate Update(const std::string& round, const std::string& contributor) {
    std::vector<int64_t> rows(kEntries);
    std::iota(rows.begin(), rows.end(), int64_t{0});
    TestUpdate update(round, contributor);
    update.Add<float>(spec_, rows, std::vector<float>(kEntries, 1.0f));
    return update;
  }
  std::shared_ptr<Upload> Begin(TestUpdate& update) {
    auto upload = engine_->BeginUpload(update.header, update.headers());
    EXPECT_TRUE(upload.ok()) << upload.status();
    return *upload;
  }

  TestEngine engine_;
  const TensorSpec spec_ = Sparse("emb", kEntries);
  const uint64_t staged_bytes_ = kEntries * 12;
};

TEST_F(LargeUploadTest, IsDecodedAsItArrivesOnceAnEighthIsThere) {
  const std::string round = engine_.Create({spec_}).name;
  TestUpdate update = Update(round, "a");
  const std::string bytes = update.byte_string();
  const auto upload = Begin(update);
  ASSERT_TRUE(upload->Append(0, bytes.substr(0, 100), std::nullopt).ok());
  EXPECT_FALSE(upload->arrived());
  EXPECT_LE(engine_->Stats().staged_bytes, 500u) << "little for whoever sends little";
  ASSERT_TRUE(upload->Append(100, bytes.substr(100, bytes.size() / 8), std::nullopt).ok());
  EXPECT_TRUE(upload->arrived());
  EXPECT_GE(engine_->Stats().staged_bytes, staged_bytes_);
  EXPECT_LE(engine_->Stats().staged_bytes, staged_bytes_ + 1000) << "and the bytes are not kept";
  const uint64_t at = upload->committed_offset();
  ASSERT_TRUE(upload->Append(at, bytes.substr(at), std::nullopt).ok());
  ASSERT_TRUE(upload->Finish().ok());
  const auto result = engine_.SealAndWait(round);
  EXPECT_EQ(Values<float>(result->tensors[0]), std::vector<float>(kEntries, 1.0f));
  EXPECT_EQ(engine_->Stats().staged_bytes, 0u);
}

TEST_F(LargeUploadTest, TakesMemoryForItsEntriesOnlyWhereThereIsNeverRoomForItsBytesToo) {
  engine_.options.limits.staging_bytes_max = staged_bytes_ + 50'000;
  const std::string round = engine_.Create({spec_}).name;
  TestUpdate first = Update(round, "a"), second = Update(round, "b");
  const std::string bytes = first.byte_string();
  const auto early = Begin(first), late = Begin(second);
  ASSERT_TRUE(early->Append(0, bytes.substr(0, 100), std::nullopt).ok());
  EXPECT_TRUE(early->arrived()) << "from its first byte on";
  const absl::Status full = late->Append(0, bytes.substr(0, 100), std::nullopt);
  EXPECT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "STAGING_FULL"));
  EXPECT_GT(RetryAfterMs(full), 0u);
  EXPECT_LE(engine_->Stats().staged_bytes, staged_bytes_ + 2000);
  ASSERT_TRUE(early->Append(100, bytes.substr(100), std::nullopt).ok());
  ASSERT_TRUE(early->Finish().ok());
  absl::Status appended;
  do {  // until the first update is folded
    appended = late->Append(0, bytes, std::nullopt);
  } while (RetryAfterMs(appended) > 0);
  ASSERT_TRUE(appended.ok()) << appended;
  ASSERT_TRUE(late->Finish().ok());
  EXPECT_EQ(Values<float>(engine_.SealAndWait(round)->tensors[0]),
            std::vector<float>(kEntries, 2.0f));
}

TEST_F(LargeUploadTest, OfMoreEntriesThanThereEverIsRoomForIsRefusedAtItsBeginning) {
  engine_.options.limits.staging_bytes_max = staged_bytes_;
  TestUpdate update = Update(engine_.Create({spec_}).name, "a");
  EXPECT_THAT(engine_->BeginUpload(update.header, update.headers()).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "UPDATE_TOO_LARGE"));
}

TEST_F(LargeUploadTest, IsKeptAsItCameWhileMemoryIsShort) {
  engine_.options.limits.staging_bytes_max = 3 * staged_bytes_ + 80'000;
  const std::string round = engine_.Create({spec_}).name;
  TestUpdate first = Update(round, "a");
  TestUpdate second = Update(round, "b");
  const std::string bytes = first.byte_string();
  const auto early = Begin(first);
  const auto late = Begin(second);
  ASSERT_TRUE(early->Append(0, bytes.substr(0, 60'000), std::nullopt).ok());
  EXPECT_TRUE(early->arrived());
  ASSERT_TRUE(late->Append(0, bytes.substr(0, 60'000), std::nullopt).ok());
  EXPECT_FALSE(late->arrived()) << "less than half would be free";
  ASSERT_TRUE(early->Append(60'000, bytes.substr(60'000), std::nullopt).ok());
  ASSERT_TRUE(early->Finish().ok());
  ASSERT_TRUE(late->Append(60'000, bytes.substr(60'000), std::nullopt).ok());
  absl::StatusOr<Receipt> receipt = late->Finish();
  for (int i = 0; i < 10'000 && RetryAfterMs(receipt.status()) > 0; ++i) receipt = late->Finish();
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  const auto result = engine_.SealAndWait(round);
  EXPECT_EQ(Values<float>(result->tensors[0]), std::vector<float>(kEntries, 2.0f));
}

TEST_F(UploadTest, ItsHeadersTakeMemoryUntilItEnds) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 100; ++i)
    specs.push_back(Sparse(std::string(100, 'n') + std::to_string(i), 10));
  const std::string round = engine_.Create(specs).name;
  TestUpdate update(round, "a");
  for (const TensorSpec& spec : specs) update.Add<float>(spec, {1}, {1});
  const uint64_t bytes = HeaderBytes(update.headers());
  EXPECT_GT(bytes, 100 * (sizeof(EncodedHeader) + 100));
  const auto upload = *Begin(update);
  EXPECT_EQ(engine_->Stats().staged_bytes, bytes);
  update.header.contributor = "b";
  const auto other = *Begin(update);
  EXPECT_EQ(engine_->Stats().staged_bytes, 2 * bytes);
  other->Refuse(absl::AbortedError("too slow"));
  EXPECT_EQ(engine_->Stats().staged_bytes, bytes);
  ASSERT_TRUE(upload->Append(0, update.byte_string(), std::nullopt).ok());
  ASSERT_TRUE(upload->Finish().ok());
  engine_->Drain();
  EXPECT_EQ(engine_->Stats().staged_bytes, 0u);
}

TEST_F(LargeUploadTest, FreesWhatItHasWhenTheRoundIsAborted) {
  const std::string round = engine_.Create({spec_}).name;
  TestUpdate update = Update(round, "a");
  const auto upload = Begin(update);
  ASSERT_TRUE(upload->Append(0, update.byte_string().substr(0, 60'000), std::nullopt).ok());
  ASSERT_TRUE(upload->arrived());
  ASSERT_TRUE(engine_->AbortRound(round).ok());
  EXPECT_EQ(engine_->Stats().staged_bytes, 0u);
  EXPECT_THAT(upload->Append(60'000, "x", std::nullopt),
              FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN"));
}

// A full round stays full, so no bytes are kept for a retry.
TEST_F(LargeUploadTest, KeepsNothingForARoundThatIsFull) {
  RoundSpec spec;
  spec.tensors = {spec_};
  spec.policy.max_contributors = 1;
  const std::string round = engine_.Create(spec).name;
  TestUpdate late = Update(round, "late");
  const auto upload = Begin(late);
  ASSERT_TRUE(upload->Append(0, late.byte_string(), std::nullopt).ok());
  TestUpdate first = Update(round, "first");
  ASSERT_TRUE(engine_.Submit(first).ok());
  EXPECT_THAT(upload->Finish().status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_FULL"));
  // The first update's entries are staged until they are folded.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (engine_->Stats().staged_bytes > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine_->Stats().staged_bytes, 0u);
}

TEST_F(LargeUploadTest, KeepsItsEntriesUntilTheyCanBeCounted) {
  // The budget holds two rounds and one update, whatever their plan.
  TestEngine unlimited;
  unlimited.Create({spec_});
  const uint64_t round_bytes = unlimited->Stats().aggregation_bytes;
  const auto fits = [&](uint64_t update_bytes) {
    TestEngine engine;
    engine.options.limits.aggregation_bytes_max = round_bytes + update_bytes;
    TestUpdate update = Update(engine.Create({spec_}).name, "a");
    return engine.Submit(update).ok();
  };
  uint64_t update_bytes = staged_bytes_;
  while (!fits(update_bytes)) update_bytes += staged_bytes_ / 2;
  engine_.options.limits.aggregation_bytes_max = 2 * round_bytes + update_bytes;
  const std::string round = engine_.Create({spec_}).name;
  const std::string other = engine_.Create({spec_}).name;
  TestUpdate taken = Update(other, "a");
  ASSERT_TRUE(engine_.Submit(taken).ok());
  TestUpdate update = Update(round, "a");
  const auto upload = Begin(update);
  ASSERT_TRUE(upload->Append(0, update.byte_string(), std::nullopt).ok());
  ASSERT_TRUE(upload->arrived());
  const absl::Status full = upload->Finish().status();
  ASSERT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "AGGREGATION_FULL"));
  ASSERT_TRUE(engine_->AbortRound(other).ok());
  ASSERT_TRUE(engine_->DeleteRound(other).ok());
  absl::StatusOr<Receipt> receipt = full;
  while (ErrorReason(receipt.status()) == "AGGREGATION_FULL") {  // until the other's fold has ended
    std::this_thread::yield();
    receipt = upload->Finish();
  }
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_EQ(Values<float>(engine_.SealAndWait(round)->tensors[0]),
            std::vector<float>(kEntries, 1.0f));
}

TEST_F(UploadTest, OfAnAbortedRoundHoldsNoneOfItsMemory) {
  TensorSpec dense = Sparse("emb", 1'000'000);
  dense.plan = "dense";
  const std::string round = engine_.Create({dense}, "large").name;
  auto upload = *Begin(TestUpdate(round, "a").Add<float>(dense, {3}, {1}));
  ASSERT_TRUE(upload->Append(0, "abc", std::nullopt).ok());
  const uint64_t before = engine_->Stats().aggregation_bytes;
  ASSERT_TRUE(engine_->AbortRound(round).ok());
  engine_->Drain();
  EXPECT_LE(engine_->Stats().aggregation_bytes + 1'000'000 * sizeof(double), before);
}

}  // namespace
}  // namespace sparseagg
