// How a root reads and verifies a divided result, whose rows its owners have.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/tree/owners/divided_digest.h"
#include "service/tree/tree_rounds.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {
namespace {

absl::Status About(const ResultPart& part, const absl::Status& failed) {
  const auto error = [&](absl::StatusCode code, std::string_view reason, std::string_view what) {
    return MakeError(code, reason,
                     absl::StrCat("owner \"", part.owner.id, "\" ", std::string(what), ": ",
                                  std::string(failed.message())));
  };
  if (IsSilence(failed)) {
    constexpr uint64_t kRetryAfterMs = 500;
    return WithRetryAfter(
        error(absl::StatusCode::kUnavailable, "OWNER_UNAVAILABLE", "does not answer"),
        kRetryAfterMs);
  }
  if (absl::IsNotFound(failed) || ErrorReason(failed) == "ROUND_NOT_PUBLISHED") {
    return error(absl::StatusCode::kDataLoss, "OWNER_LOST", "has no longer its part of the result");
  }
  return failed;
}

class OwnersReader : public PartReader {
 public:
  explicit OwnersReader(std::map<std::string, std::shared_ptr<LeafLink>> links)
      : links_(std::move(links)) {}
  void Read(const ResultPart& part, const v1::ReadResultRequest& request, Done done) override {
    links_.at(part.owner.id)
        ->ReadResult(part.round, request,
                     [part, done = std::move(done)](absl::StatusOr<v1::ReadResultResponse> found) {
                       found.ok() ? done(std::move(found)) : done(About(part, found.status()));
                     });
  }

 private:
  const std::map<std::string, std::shared_ptr<LeafLink>> links_;  // by id of the owner
};

}  // namespace

std::map<std::string, std::shared_ptr<LeafLink>> TreeRounds::LinksTo(
    const std::vector<ResultPart>& parts) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::shared_ptr<LeafLink>> links;
  for (const ResultPart& part : parts) links[part.owner.id] = ServerLocked(part.owner)->link;
  return links;
}

std::shared_ptr<PartReader> TreeRounds::ReaderOf(const std::vector<ResultPart>& parts) {
  return std::make_shared<OwnersReader>(LinksTo(parts));
}

absl::StatusOr<std::shared_ptr<const PublishedResult>> TreeRounds::Result(std::string_view name) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto own, engine_.Result(name));
  if (own->manifest.parts.empty()) return own;
  // The copy has no rows; it keeps the original, and so its memory.
  struct Held {
    std::shared_ptr<const PublishedResult> own;
    PublishedResult result;
  };
  const auto held = std::make_shared<Held>(Held{own, *own});
  held->result.parts = ReaderOf(own->manifest.parts);
  ShowAddresses(held->result.manifest);
  return std::shared_ptr<const PublishedResult>(held, &held->result);
}

absl::StatusOr<Verification> TreeRounds::Verify(std::string_view name,
                                                const std::function<bool()>& cancelled) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto result, Result(name));
  absl::StatusOr<Verification> own = engine_.VerifyRound(name, cancelled);
  if (result->parts == nullptr) return own;
  const bool is_kept = ErrorReason(own.status()) != "UPDATES_NOT_KEPT";
  if (!own.ok() && is_kept) return own;
  const auto links = LinksTo(result->manifest.parts);
  for (const ResultPart& part : result->manifest.parts) {
    if (cancelled()) return absl::CancelledError("the verification was cancelled");
    const auto verified = links.at(part.owner.id)->Verify(part.round);
    if (!verified.ok()) {
      if (!is_kept && ErrorReason(verified.status()) == "UPDATES_NOT_KEPT") continue;
      return About(part, verified.status());
    }
    if (own.ok()) own->bytes_read += verified->bytes_read;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string digest, DigestOfDivided(result, cancelled));
  if (digest != result->manifest.result_digest) {
    return MakeError(absl::StatusCode::kDataLoss, "RESULT_MISMATCH",
                     "the parts of the owners do not have the digest of the manifest");
  }
  return own;
}

}  // namespace sparseagg
