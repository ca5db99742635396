// The functions of Client for partial aggregates (docs/partials.md).
#include <utility>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "client/client_impl.h"

namespace sparseagg::client {
namespace {

constexpr char kPartialEncoding[] = "partial.v1";
constexpr size_t kDigestBytes = 32;

}  // namespace

absl::Status Client::Impl::ReadPartialOnce(const std::string& round, uint64_t timeout_ms,
                                           const Progress& progress, PartialBytes& partial) {
  grpc::ClientContext context;
  SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, timeout_ms));
  v1::GetPartialRequest request;
  request.set_name(round);
  request.set_offset(partial.bytes.size());
  const auto stream = stub->GetPartial(&context, request);
  v1::GetPartialResponse message;
  uint64_t total = 0;
  while (stream->Read(&message)) {
    if (message.has_header()) {
      total = message.header().bytes();
      partial.digest = message.header().digest();
      if (total <= options.result_bytes_max) continue;
      context.TryCancel();
      stream->Finish();
      return MakeError(absl::StatusCode::kResourceExhausted, "RESULT_TOO_LARGE",
                       "the partial aggregate is larger than result_bytes_max");
    }
    if (message.chunk().offset() != partial.bytes.size()) continue;
    partial.bytes += message.chunk().data();
    if (progress) progress(partial.bytes.size(), total);
  }
  SPARSEAGG_RETURN_IF_ERROR(ToStatus(stream->Finish(), caller.route));
  if (partial.bytes.size() == total && total >= kDigestBytes) return absl::OkStatus();
  return MakeError(absl::StatusCode::kDataLoss, "TRUNCATED",
                   "the server ended the partial aggregate early");
}

absl::StatusOr<PartialBytes> Client::GetPartial(const std::string& round,
                                                const Progress& progress) {
  RetryLoop retry(impl_->options, impl_->transfer());
  PartialBytes partial;
  for (;;) {
    const size_t before = partial.bytes.size();
    const absl::Status status =
        impl_->ReadPartialOnce(RoundName(round), retry.attempt_ms(), progress, partial);
    if (status.ok()) return partial;
    if (partial.bytes.size() > before) retry.MadeProgress();
    if (!retry.WaitToRetry(status)) return impl_->Explain(status, round);
  }
}

absl::StatusOr<Receipt> Client::SubmitPartial(const std::string& round, const std::string& node,
                                              const std::string& partial,
                                              const std::string& update_id,
                                              const Progress& progress) {
  if (partial.size() < kDigestBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PARTIAL",
                     "the bytes are too few for a partial aggregate");
  }
  EncodedUpdate update;
  update.round = RoundName(round);
  update.contributor = node;
  // The digest at the end names the content, so a resend has the id of the first.
  update.update_id = !update_id.empty()
                         ? update_id
                         : absl::BytesToHexString(partial.substr(partial.size() - kDigestBytes));
  EncodedHeader& header = update.headers.emplace_back();
  header.encoding = kPartialEncoding;
  header.values_bytes = partial.size();
  update.pieces = {"", partial};
  absl::StatusOr<Receipt> receipt = partial.size() <= impl_->options.unary_bytes_max
                                        ? impl_->SubmitWhole(std::move(update), progress)
                                        : impl_->SubmitInChunks(update, progress);
  if (!receipt.ok()) return impl_->Explain(receipt.status(), round);
  impl_->origins.Record(receipt->round, {receipt->durability, receipt->epoch});
  return receipt;
}

}  // namespace sparseagg::client
