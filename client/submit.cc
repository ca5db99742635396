// The functions of Client that send updates: one update whole or in chunks, by its size, or many
// small ones together (many_updates.h).
#include <algorithm>
#include <chrono>
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

bool IsSilence(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// What becomes of updates that a server did not take.
class LeafSearch {
 public:
  explicit LeafSearch(const ClientOptions& options) : options_(options) {}

  // Whether the update may belong to another server than `sent_to`, a leaf or null: the tree of the
  // round that is remembered may be that of an earlier round, and a leaf may have another address.
  bool MayHaveMoved(const std::shared_ptr<Client>& sent_to, const absl::Status& refusal) const {
    const bool is_leaf = sent_to != nullptr;
    if (is_leaf && absl::IsUnavailable(refusal)) return options_.retry.attempts_max != 1;
    return turns_ == 0 &&
           (ErrorReason(refusal) == "WRONG_LEAF" || (is_leaf && absl::IsNotFound(refusal)));
  }
  void NextTurn() {  // the root has been asked
    if (turns_++ == 0) first_ = std::chrono::steady_clock::now();
  }
  // Whether an update is sent again to a leaf that is where it was.
  bool GoesOn(const absl::Status& refusal) const {
    if (!absl::IsUnavailable(refusal) || options_.retry.attempts_max != 0) return false;
    const auto limit = std::chrono::milliseconds(options_.call_timeout_ms);
    return limit.count() == 0 || std::chrono::steady_clock::now() - first_ < limit;
  }

 private:
  const ClientOptions& options_;
  int turns_ = 0;
  std::chrono::steady_clock::time_point first_;
};

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

absl::Status Client::Impl::LearnLeaves(const std::string& round, bool may_have_some) {
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(caller.process));  // which may have held the lock
  if (!may_have_some || leaves->Knows(RoundName(round))) return absl::OkStatus();
  return NamedRoundCall(round, &Stub::GetRound).status();
}

absl::StatusOr<std::shared_ptr<Client>> Client::Impl::FindLeaf(const std::string& round,
                                                               const std::string& contributor) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Client> leaf, leaves->Find(round, contributor));
  if (leaf != nullptr) leaf->impl_->is_leaf = true;
  return leaf;
}

absl::Status Client::Impl::AskForLeaves(const std::string& round, const absl::Status& error) {
  if (!absl::IsUnavailable(error)) return NamedRoundCall(round, &Stub::GetRound).status();
  v1::GetRoundRequest request;
  request.set_name(RoundName(round));
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::Round answer,
                             Attempt<v1::Round>(kLeafAwayMs, [&](auto* context, auto* response) {
                               return stub->GetRound(context, request, response);
                             }));
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundInfo info, FromProto(answer));
  leaves->Learn(info.name, info.tree);
  return absl::OkStatus();
}

absl::StatusOr<Receipt> Client::Submit(const std::string& round, const Update& update,
                                       const Progress& progress) {
  const std::string name = RoundName(round);
  // An ordinary server is spared the call. The first update that a root gets tells that it is one.
  SPARSEAGG_RETURN_IF_ERROR(impl_->LearnLeaves(round, impl_->leaves->IsRoot()));
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Client> leaf,
                             impl_->FindLeaf(name, update.contributor));
  LeafSearch search(impl_->options);
  for (;;) {
    Impl& there = leaf == nullptr ? *impl_ : *leaf->impl_;
    absl::StatusOr<Receipt> receipt = there.SubmitHere(round, update, progress);
    // The leaf may have another address now.
    if (absl::IsUnavailable(receipt.status())) impl_->leaves->Forget(name);
    if (!search.MayHaveMoved(leaf, receipt.status())) return receipt;
    search.NextTurn();
    const absl::Status asked = impl_->AskForLeaves(round, receipt.status());
    if (!asked.ok() && !IsSilence(asked)) return receipt;
    std::shared_ptr<Client> now = leaf;
    if (asked.ok()) {
      SPARSEAGG_ASSIGN_OR_RETURN(now, impl_->FindLeaf(name, update.contributor));
    }
    if (now == leaf && !search.GoesOn(receipt.status())) return receipt;
    leaf = now;
  }
}

std::vector<absl::StatusOr<Receipt>> Client::SubmitMany(const std::string& round,
                                                        std::span<const Update> updates) {
  const std::string name = RoundName(round);
  std::vector<absl::StatusOr<Receipt>> outcomes(updates.size(), absl::UnknownError("not sent"));
  // One call is little beside many updates that the root would refuse.
  const absl::Status learned =
      impl_->LearnLeaves(round, updates.size() > 1 || impl_->leaves->IsRoot());
  if (!learned.ok()) return {updates.size(), learned};

  std::vector<std::shared_ptr<Client>> sent_to(updates.size());  // null: this server
  std::vector<size_t> left(updates.size());
  std::iota(left.begin(), left.end(), size_t{0});
  LeafSearch search(impl_->options);
  absl::Status asked;
  for (bool again = false;; again = true) {
    std::map<Client*, std::vector<size_t>> by_leaf;
    for (const size_t i : left) {
      // A root that does not answer, either, says nothing new.
      const auto leaf = asked.ok() ? impl_->FindLeaf(name, updates[i].contributor) : sent_to[i];
      if (!leaf.ok()) {
        outcomes[i] = leaf.status();
      } else if (!again || *leaf != sent_to[i] || search.GoesOn(outcomes[i].status())) {
        sent_to[i] = *leaf;
        by_leaf[leaf->get()].push_back(i);
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
      if (search.MayHaveMoved(sent_to[i], outcomes[i].status())) left.push_back(i);
      if (absl::IsUnavailable(outcomes[i].status())) impl_->leaves->Forget(name);
    }
    if (by_leaf.empty() || left.empty()) return outcomes;
    search.NextTurn();
    asked = impl_->AskForLeaves(round, outcomes[left.front()].status());
    if (!asked.ok() && !IsSilence(asked)) return outcomes;
  }
}

}  // namespace sparseagg::client
