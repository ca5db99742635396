#include "tests/failpoints/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "tests/service/engine/testing.h"

namespace sparseagg::testing {
namespace {

constexpr int64_t kRows = 100'000;
constexpr const char* kRounds[] = {"published", "retired", "aborted", "deleted", "open"};
// The payloads of these contributors, and so the results, are large enough for files.
constexpr std::string_view kLargeContributor = "large";
constexpr std::string_view kStreamedContributor = "streamed";
constexpr std::string_view kContributors[] = {"a", kLargeContributor};
// Checkpoints are close, so that a partial payload that is large enough for a file has several.
constexpr uint64_t kCheckpointBytes = 64 << 10;
constexpr uint64_t kChunkBytes = 100'000;

std::string NameOf(std::string_view round) { return absl::StrCat("rounds/", std::string(round)); }

TestUpdate UpdateOf(std::string_view round, std::string_view contributor) {
  const bool large = contributor == kLargeContributor || contributor == kStreamedContributor;
  std::vector<int64_t> rows(large ? 20'000 : 3);
  std::vector<float> values(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int64_t>(i * 3 + contributor.size());
    values[i] = 0.1f * static_cast<float>(i + round.size() + static_cast<size_t>(contributor[0]));
  }
  return TestUpdate(NameOf(round), std::string(contributor), 2.0f)
      .Add(Sparse("t", kRows), rows, values);
}

// Retries as long as the error has a time to retry after.
template <class Result>
Result WithRetries(LocalServer& server, const std::function<Result()>& call) {
  for (int tries = 0;; ++tries) {
    Result result = call();
    absl::Status status;
    if constexpr (std::is_same_v<Result, absl::Status>) {
      status = result;
    } else {
      status = result.status();
    }
    if (tries == 10 || RetryAfterMs(status) == 0) return result;
    server.Settle();
  }
}

class WorkloadRunner {
 public:
  WorkloadRunner(LocalServer& server, const Note& note) : server_(server), note_(note) {}

  absl::Status Run() {
    for (const char* round : kRounds) SPARSEAGG_RETURN_IF_ERROR(Create(round));
    for (const char* round : kRounds) {
      for (const std::string_view contributor : kContributors) {
        SPARSEAGG_RETURN_IF_ERROR(Submit(round, contributor));
        SPARSEAGG_RETURN_IF_ERROR(Submit(round, contributor));  // a resend
      }
      SPARSEAGG_RETURN_IF_ERROR(SubmitInChunks(round, "chunked"));
      SPARSEAGG_RETURN_IF_ERROR(SubmitInChunks(round, kStreamedContributor));
    }
    for (const char* round : {"published", "retired"}) SPARSEAGG_RETURN_IF_ERROR(Publish(round));
    for (const char* round : {"aborted", "deleted"}) SPARSEAGG_RETURN_IF_ERROR(Abort(round));
    for (const char* round : {"retired", "deleted"}) SPARSEAGG_RETURN_IF_ERROR(Delete(round));
    return absl::OkStatus();
  }

 private:
  Engine& engine() { return server_.engine(); }

  // An aborted or half deleted round gives no guarantee about its updates.
  bool Over(std::string_view round) {
    const auto found = engine().GetRound(NameOf(round));
    return found.ok() && IsFinal(found->state);
  }

  absl::Status Create(std::string_view round) {
    CreateRoundArgs args;
    args.round_id = std::string(round);
    args.request_id = absl::StrCat("create-", std::string(round));
    args.spec.tensors = {Sparse("t", kRows)};
    args.spec.durability = Durability::kDurable;
    note_(absl::StrCat("creating ", std::string(round)));
    const auto created = WithRetries<absl::StatusOr<RoundSnapshot>>(
        server_, [&] { return engine().CreateRound(args); });
    // The round of a repeated request may have ended.
    if (created.ok() && created->state == RoundState::kOpen) {
      note_(absl::StrCat("created ", std::string(round)));
    }
    return created.status();
  }

  absl::Status Counted(std::string_view round, const absl::StatusOr<Receipt>& receipt) {
    if (!receipt.ok()) return Over(round) ? absl::OkStatus() : receipt.status();
    note_(absl::StrCat("counted ", std::string(round), " ", receipt->contributor, " ",
                       receipt->sequence, " ", absl::BytesToHexString(receipt->digest)));
    return absl::OkStatus();
  }

  absl::Status Submit(std::string_view round, std::string_view contributor) {
    TestUpdate update = UpdateOf(round, contributor);
    return Counted(round, WithRetries<absl::StatusOr<Receipt>>(server_, [&] {
                     return engine().Submit(update.header, update.tensors());
                   }));
  }

  absl::Status SubmitInChunks(std::string_view round, std::string_view contributor) {
    TestUpdate update = UpdateOf(round, contributor);
    const std::string bytes = update.byte_string();
    return Counted(round,
                   WithRetries<absl::StatusOr<Receipt>>(server_, [&]() -> absl::StatusOr<Receipt> {
                     SPARSEAGG_ASSIGN_OR_RETURN(
                         const auto upload, engine().BeginUpload(update.header, update.headers()));
                     for (uint64_t from = upload->committed_offset(); from < bytes.size();
                          from += kChunkBytes) {
                       SPARSEAGG_RETURN_IF_ERROR(
                           upload->Append(from, bytes.substr(from, kChunkBytes), std::nullopt));
                     }
                     return upload->Finish();
                   }));
  }

  absl::Status Publish(std::string_view round) {
    const auto sealed = WithRetries<absl::StatusOr<RoundSnapshot>>(
        server_, [&] { return engine().SealRound(NameOf(round)); });
    if (!sealed.ok()) return sealed.status();
    note_(absl::StrCat("sealed ", std::string(round)));
    server_.Settle();
    const auto result = engine().Result(NameOf(round));
    if (!result.ok()) return result.status();
    note_(absl::StrCat("published ", std::string(round), " ",
                       absl::BytesToHexString((*result)->manifest.result_digest)));
    return absl::OkStatus();
  }

  absl::Status Abort(std::string_view round) {
    note_(absl::StrCat("aborting ", std::string(round)));
    const auto aborted = WithRetries<absl::StatusOr<RoundSnapshot>>(
        server_, [&] { return engine().AbortRound(NameOf(round)); });
    if (aborted.ok()) note_(absl::StrCat("aborted ", std::string(round)));
    return aborted.status();
  }

  absl::Status Delete(std::string_view round) {
    note_(absl::StrCat("deleting ", std::string(round)));
    const absl::Status deleted =
        WithRetries<absl::Status>(server_, [&] { return engine().DeleteRound(NameOf(round)); });
    if (deleted.ok()) note_(absl::StrCat("deleted ", std::string(round)));
    return deleted;
  }

  LocalServer& server_;
  const Note& note_;
};

// The notes about one round.
struct Noted {
  bool created = false;
  bool sealed = false;
  bool aborting = false;
  bool aborted = false;
  bool deleting = false;
  bool deleted = false;
  std::string result_digest;
  std::map<std::string, std::pair<uint64_t, std::string>> counted;  // sequence, digest
};

std::map<std::string, Noted> Read(const Notes& notes) {
  std::map<std::string, Noted> rounds;
  for (const std::string& line : notes) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Noted& round = rounds[words[1]];
    // From here on, a deleted round may have been created again; until then, the earlier one may
    // still exist, aborted or published.
    if (words[0] == "creating" && round.deleting) round = Noted{.deleting = true};
    if (words[0] == "created") round.created = true;
    if (words[0] == "created") round.deleting = false;
    if (words[0] == "counted") round.counted[words[2]] = {std::stoull(words[3]), words[4]};
    if (words[0] == "sealed") round.sealed = true;
    if (words[0] == "published") round.result_digest = words[2];
    if (words[0] == "aborting") round.aborting = true;
    if (words[0] == "aborted") round.aborted = true;
    if (words[0] == "deleting") round.deleting = true;
    if (words[0] == "deleted") round.deleted = true;
  }
  return rounds;
}

std::string BrokenReceipts(Engine& engine, const std::string& round, const Noted& noted) {
  for (const auto& [contributor, counted] : noted.counted) {
    TestUpdate update = UpdateOf(round, contributor);
    const auto receipt = engine.Submit(update.header, update.tensors());
    if (!receipt.ok()) return absl::StrCat(contributor, ": ", receipt.status().ToString());
    if (!receipt->duplicate) return contributor + " was lost and is counted now";
    if (receipt->sequence != counted.first ||
        absl::BytesToHexString(receipt->digest) != counted.second) {
      return contributor + " has another receipt";
    }
  }
  return "";
}

std::string FirstBrokenNote(Engine& engine, const std::string& round, const Noted& noted) {
  const auto found = engine.GetRound(NameOf(round));
  if (absl::IsNotFound(found.status())) return noted.created && !noted.deleting ? "is gone" : "";
  if (!found.ok()) return found.status().ToString();
  const RoundState state = found->state;
  if (!found->failure.empty()) return "failed: " + found->failure;
  if (noted.deleted) return "was deleted and is there";
  if (state == RoundState::kAborted) return noted.aborting || noted.deleting ? "" : "is aborted";
  if (noted.aborted) return "was aborted and is not";
  if (noted.sealed && state == RoundState::kOpen) return "was sealed and is open";
  if (!noted.result_digest.empty()) {
    const auto result = engine.Result(NameOf(round));
    if (!result.ok()) return "has lost its result";
    if (absl::BytesToHexString((*result)->manifest.result_digest) != noted.result_digest) {
      return "has another result";
    }
  }
  return noted.deleting ? "" : BrokenReceipts(engine, round, noted);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const std::string& folder,
                                                                FailpointHook hook) {
  std::unique_ptr<LocalServer> server(new LocalServer);
  SPARSEAGG_ASSIGN_OR_RETURN(server->store_, OpenDurableStore({.directory = folder,
                                                               .free_bytes_min = 0,
                                                               .checkpoint_bytes = kCheckpointBytes,
                                                               .failpoints = std::move(hook)}));
  server->backend_ = MakeBackend("cpu");
  server->engine_ =
      // The workload starts again with the same names.
      MakeEngine({.limits = {.retry_horizon_ms = 0}, .executor = &server->executor_},
                 *server->backend_, *server->store_);
  SPARSEAGG_RETURN_IF_ERROR(server->engine_->Recover());
  return server;
}

void LocalServer::Settle() {
  // This is longer than any delay here: errors that may be retried say 1 ms.
  for (int turn = 0; turn < 20; ++turn) {
    executor_.WaitUntilIdle();
    executor_.Advance(std::chrono::seconds(1));
  }
}

absl::Status RunWorkload(LocalServer& server, const Note& note) {
  return WorkloadRunner(server, note).Run();
}

std::string FinalState(LocalServer& server) {
  Engine& engine = server.engine();
  engine.SealRound(NameOf("open")).IgnoreError();
  server.Settle();
  std::string outcome;
  for (const char* round : kRounds) {
    const auto found = engine.GetRound(NameOf(round));
    absl::StrAppend(&outcome, round, " ",
                    found.ok() ? std::string(RoundStateName(found->state)) : "GONE");
    const auto result = engine.Result(NameOf(round));
    if (result.ok()) {
      const Manifest& manifest = (*result)->manifest;
      absl::StrAppend(&outcome, " ", manifest.contributors, " ", manifest.total_weight, " ",
                      absl::BytesToHexString(manifest.updates_digest), " ",
                      absl::BytesToHexString(manifest.result_digest));
    }
    outcome += "\n";
  }
  return outcome;
}

std::string FirstBrokenNote(LocalServer& server, const Notes& notes) {
  server.Settle();
  for (const auto& [round, noted] : Read(notes)) {
    const std::string broken = FirstBrokenNote(server.engine(), round, noted);
    if (!broken.empty()) return absl::StrCat(round, " ", broken);
  }
  return "";
}

}  // namespace sparseagg::testing
