#include "service/store/put_group.h"

#include <utility>

#include "base/status.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

// Sets the result if the accepted updates decide it. Returns false if the update may be added.
bool AnswerFrom(const AcceptedUpdates& accepted, PendingPut& put) {
  auto known = accepted.Classify(put.record, put.contributors_max);
  if (known.ok() && !known->has_value()) return false;
  put.result = known.ok() ? absl::StatusOr<PutResult>(**std::move(known)) : known.status();
  return true;
}

}  // namespace

void PutGroup::Classify(std::span<PendingCommit* const> commits, const FindRound& find) {
  for (PendingCommit* commit : commits) {
    if (commit->rows != nullptr) {
      rows_.push_back(commit->rows);
    } else {
      Classify(*commit->put, find);
    }
  }
}

void PutGroup::Classify(PendingPut& put, const FindRound& find) {
  const Round round = find(put.record.round);
  if (round.accepted == nullptr) {
    put.result = RoundNotFound(put.record.round);
    return;
  }
  if (AnswerFrom(*round.accepted, put)) return;
  // The sequence is gapless: it is the number of contributors.
  uint64_t& sequence =
      sequences_.try_emplace(put.record.round, round.accepted->last_sequence()).first->second;
  const bool full = put.contributors_max != 0 && sequence >= put.contributors_max;
  if (full || !contributors_.emplace(put.record.round, put.record.contributor).second) {
    deferred_.push_back(&put);
    return;
  }
  Entry& entry = entries_.emplace_back(Entry{&put, round.id, put.record});
  entry.record.sequence = ++sequence;
  has_files_ |= put.payload.file != 0;
}

absl::Status PutGroup::Write(Tables& tables, TaskRowTable& task_rows) const {
  for (const Entry& entry : entries_) {
    SPARSEAGG_RETURN_IF_ERROR(
        tables.InsertUpdate(entry.round, entry.record, entry.put->headers, entry.put->payload));
  }
  for (const PendingRows* pending : rows_) {
    SPARSEAGG_RETURN_IF_ERROR(task_rows.Write(pending->rows));
  }
  return absl::OkStatus();
}

void PutGroup::Finish(const absl::Status& committed, const FindRound& find) {
  for (PendingRows* pending : rows_) pending->result = committed;
  for (Entry& entry : entries_) {
    if (!committed.ok()) {
      entry.put->result = committed;
      continue;
    }
    find(entry.record.round).accepted->Add(entry.record);
    entry.put->result = PutResult{PutOutcome::kAccepted, std::move(entry.record)};
  }
  for (PendingPut* put : deferred_) {
    if (AnswerFrom(*find(put->record.round).accepted, *put)) continue;
    // The entries before it were not committed.
    put->result = StoreBusy("an update before this one could not be stored; try again");
  }
}

}  // namespace sparseagg
