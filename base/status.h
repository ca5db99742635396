// Errors with a stable reason. A message is one line that names the tensor, the position and the
// limit; the reason is an UPPER_SNAKE_CASE word that programs can act on. The service sends it as
// google.rpc.ErrorInfo.
#ifndef SPARSEAGG_BASE_STATUS_H_
#define SPARSEAGG_BASE_STATUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace sparseagg {

// Returns a status of `code` that carries `reason`.
absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message);

// Returns the reason of `status`; empty when it has none.
std::string ErrorReason(const absl::Status& status);

// Adds a key and its value, for programs; it becomes ErrorInfo.metadata on the wire.
absl::Status WithMetadata(absl::Status status, std::string_view key, std::string_view value);
std::map<std::string, std::string> ErrorMetadata(const absl::Status& status);

// Returns the same error with another message; code, reason, metadata and retry hint stay.
// REQUIRES: !status.ok().
absl::Status WithMessage(const absl::Status& status, std::string_view message);

// Adds a retry hint: the caller may try again after `ms` milliseconds.
absl::Status WithRetryAfter(absl::Status status, uint64_t ms);
// Returns the milliseconds to wait before a retry, or 0 when a retry is not expected to help.
uint64_t RetryAfterMs(const absl::Status& status);

}  // namespace sparseagg

// Returns from the enclosing function when `expr` is not OK.
#define SPARSEAGG_RETURN_IF_ERROR(expr)      \
  do {                                       \
    absl::Status sparseagg_status_ = (expr); \
    if (!sparseagg_status_.ok()) {           \
      return sparseagg_status_;              \
    }                                        \
  } while (false)

#define SPARSEAGG_CONCAT_INNER(a, b) a##b
#define SPARSEAGG_CONCAT(a, b) SPARSEAGG_CONCAT_INNER(a, b)
#define SPARSEAGG_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                    \
  if (!tmp.ok()) {                                      \
    return std::move(tmp).status();                     \
  }                                                     \
  lhs = *std::move(tmp)
// Assigns the value of a StatusOr, or returns its error.
#define SPARSEAGG_ASSIGN_OR_RETURN(lhs, expr) \
  SPARSEAGG_ASSIGN_OR_RETURN_IMPL(SPARSEAGG_CONCAT(sparseagg_statusor_, __LINE__), lhs, expr)

#endif  // SPARSEAGG_BASE_STATUS_H_
