// The functions of Client that send updates: one update whole or in chunks, by its size, or many
// small ones together (many_updates.h).
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "client/client_impl.h"
#include "client/many_updates.h"
#include "client/upload.h"

namespace sparseagg::client {
namespace {

constexpr char kWrongLeaf[] = "WRONG_LEAF";

}  // namespace

absl::StatusOr<bool> Client::Impl::ServerKnowsPacked() {
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(caller.process));  // which may have held the lock
  {
    const std::lock_guard lock(mutex);
    if (knows_packed.has_value()) return *knows_packed;
  }
  const absl::StatusOr<ServerInfo> info = Info();
  if (absl::IsUnavailable(info.status()) || absl::IsDeadlineExceeded(info.status())) {
    return info.status();
  }
  const std::lock_guard lock(mutex);
  if (!info.ok()) knows_packed = false;
  return *knows_packed;
}

absl::StatusOr<Receipt> Client::Impl::SubmitWhole(EncodedUpdate update, const Progress& progress) {
  const uint64_t total = update.total_bytes();
  const v1::SubmitUpdateRequest request = ToRequest(std::move(update));
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::Receipt receipt,
                             Unary<v1::Receipt>(transfer(), [&](auto* context, auto* response) {
                               return stub->SubmitUpdate(context, request, response);
                             }));
  if (progress) progress(total, total);
  return FromProto(receipt);
}

absl::StatusOr<Receipt> Client::Impl::SubmitInChunks(const EncodedUpdate& update,
                                                     const Progress& progress) {
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(caller.process));  // which may have held the lock
  RetryLoop retry(options, transfer());
  const Connections::Lease connection = connections->ForUpload();
  Stub* via = connection.get();
  uint64_t offset = 0;
  for (;;) {
    UploadAttempt attempt = UploadOnce(*via, caller, update, retry.attempt_ms(), progress);
    if (attempt.receipt.ok()) return std::move(attempt.receipt);
    if (attempt.resumed_at > offset) retry.MadeProgress();
    offset = std::max(offset, attempt.resumed_at);
    const absl::Status& status = attempt.receipt.status();
    if (!retry.WaitToRetry(status)) return status;
    if (absl::IsUnavailable(status)) via = stub;  // the wait has reconnected this one
  }
}

absl::StatusOr<Receipt> Client::Impl::SubmitHere(const std::string& round, const Update& update,
                                                 const Progress& progress) {
  bool knows_packed = true;
  if (update.encoding == kAuto) {
    SPARSEAGG_ASSIGN_OR_RETURN(knows_packed, ServerKnowsPacked());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(EncodedUpdate encoded, Encode(RoundName(round), update, knows_packed));
  std::vector<TensorEncoding> encodings = encoded.encodings();
  absl::StatusOr<Receipt> receipt = encoded.total_bytes() <= options.unary_bytes_max
                                        ? SubmitWhole(std::move(encoded), progress)
                                        : SubmitInChunks(encoded, progress);
  if (!receipt.ok()) return Explain(receipt.status(), round);
  receipt->encodings = std::move(encodings);
  origins.Record(receipt->round, {receipt->durability, receipt->epoch});
  return receipt;
}

std::vector<absl::StatusOr<Receipt>> Client::Impl::SubmitManyHere(const std::string& round,
                                                                  std::span<const Update> updates) {
  const bool asks =
      std::ranges::any_of(updates, [](const Update& update) { return update.encoding == kAuto; });
  const absl::StatusOr<bool> knows_packed = asks ? ServerKnowsPacked() : true;
  if (!knows_packed.ok()) return {updates.size(), knows_packed.status()};

  ManyUpdates many(RoundName(round), updates, *knows_packed, options.unary_bytes_max);
  RetryLoop retry(options, transfer());
  while (many.under_way()) {
    const size_t before = many.answered();
    const absl::Status status = many.SendOnce(*stub, caller, retry.attempt_ms());
    if (many.answered() > before) retry.MadeProgress();
    if (!status.ok() && !retry.WaitToRetry(status)) many.GiveUp(status);
  }
  std::vector<absl::StatusOr<Receipt>> outcomes;
  std::optional<absl::Status> lost;  // computed once
  for (auto& outcome : many.TakeOutcomes()) {
    if (!outcome.has_value()) {
      outcomes.push_back(SubmitHere(round, updates[outcomes.size()], {}));
      continue;
    }
    if (outcome->ok()) {
      origins.Record((*outcome)->round, {(*outcome)->durability, (*outcome)->epoch});
    } else if (ErrorReason(outcome->status()) == "ROUND_NOT_FOUND") {
      if (!lost.has_value()) lost = Explain(outcome->status(), round);
      outcome = *lost;
    }
    outcomes.push_back(*std::move(outcome));
  }
  return outcomes;
}

bool Client::Impl::LearnLeaves(const std::string& round) {
  v1::GetRoundRequest request;
  request.set_name(RoundName(round));
  const absl::StatusOr<RoundInfo> info = RoundCall(request, &Stub::GetRound);
  // Only a root says where to send. An owner may put any leaves, and their addresses, into the
  // round of another server.
  if (!info.ok() || info->tree.leaves.empty() || !info->tree.self.empty()) return false;
  leaves->Learn(request.name(), info->tree);
  return true;
}

absl::StatusOr<Receipt> Client::Submit(const std::string& round, const Update& update,
                                       const Progress& progress) {
  for (bool asked = false;; asked = true) {
    SPARSEAGG_ASSIGN_OR_RETURN(Client * leaf,
                               impl_->leaves->Find(RoundName(round), update.contributor));
    Impl& there = leaf == nullptr ? *impl_ : *leaf->impl_;
    absl::StatusOr<Receipt> receipt = there.SubmitHere(round, update, progress);
    // The leaf may have moved.
    if (absl::IsUnavailable(receipt.status())) impl_->leaves->Forget(RoundName(round));
    if (ErrorReason(receipt.status()) != kWrongLeaf || asked || !impl_->LearnLeaves(round)) {
      return receipt;
    }
  }
}

std::vector<absl::StatusOr<Receipt>> Client::SubmitMany(const std::string& round,
                                                        std::span<const Update> updates) {
  std::vector<absl::StatusOr<Receipt>> outcomes(updates.size(), absl::UnknownError("not sent"));
  std::vector<size_t> left(updates.size());
  std::iota(left.begin(), left.end(), size_t{0});
  for (bool asked = false;; asked = true) {
    std::map<Client*, std::vector<size_t>> by_leaf;  // null: this server
    for (const size_t i : left) {
      const auto leaf = impl_->leaves->Find(RoundName(round), updates[i].contributor);
      if (leaf.ok()) {
        by_leaf[*leaf].push_back(i);
      } else {
        outcomes[i] = leaf.status();
      }
    }
    std::vector<std::thread> threads;
    for (const auto& [leaf, positions] : by_leaf) {
      threads.emplace_back([&, leaf = leaf, positions = &positions] {
        std::vector<Update> theirs;
        for (const size_t i : *positions) theirs.push_back(updates[i]);
        auto answers = (leaf == nullptr ? *impl_ : *leaf->impl_).SubmitManyHere(round, theirs);
        for (size_t i = 0; i < answers.size(); ++i) {
          outcomes[(*positions)[i]] = std::move(answers[i]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    left.clear();
    for (size_t i = 0; i < outcomes.size(); ++i) {
      if (ErrorReason(outcomes[i].status()) == kWrongLeaf) left.push_back(i);
      if (absl::IsUnavailable(outcomes[i].status())) impl_->leaves->Forget(RoundName(round));
    }
    if (left.empty() || asked || !impl_->LearnLeaves(round)) return outcomes;
  }
}

}  // namespace sparseagg::client
