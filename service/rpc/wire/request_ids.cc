#include "service/rpc/wire/request_ids.h"

#include <algorithm>
#include <cstdint>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

constexpr size_t kRequestIdBytesMax = 64;
constexpr size_t kTraceIdDigits = 32;
constexpr size_t kParentIdDigits = 16;
constexpr size_t kTraceIdAt = 3;  // behind "00-"
constexpr size_t kParentIdAt = kTraceIdAt + kTraceIdDigits + 1;
constexpr size_t kFlagsAt = kParentIdAt + kParentIdDigits + 1;
constexpr size_t kTraceparentBytes = kFlagsAt + 2;

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); });
}

bool IsAllZero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

std::string NewRequestId() {
  thread_local absl::InsecureBitGen random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad16));
}

void ParseTraceparent(std::string_view traceparent, RequestIds& ids) {
  // A later version may be longer, behind another dash; "ff" is not a version.
  if (traceparent.size() < kTraceparentBytes) return;
  const std::string_view version = traceparent.substr(0, 2);
  const std::string_view trace_id = traceparent.substr(kTraceIdAt, kTraceIdDigits);
  const std::string_view parent_id = traceparent.substr(kParentIdAt, kParentIdDigits);
  const std::string_view flags = traceparent.substr(kFlagsAt, 2);
  const bool longer = traceparent.size() > kTraceparentBytes;
  if (!IsLowerHex(version) || version == "ff" || (longer && version == "00") ||
      (longer && traceparent[kTraceparentBytes] != '-') || traceparent[kTraceIdAt - 1] != '-' ||
      traceparent[kParentIdAt - 1] != '-' || traceparent[kFlagsAt - 1] != '-') {
    return;
  }
  if (!IsLowerHex(trace_id) || IsAllZero(trace_id) || !IsLowerHex(parent_id) ||
      IsAllZero(parent_id) || !IsLowerHex(flags)) {
    return;
  }
  ids.trace_id = std::string(trace_id);
  ids.parent_id = std::string(parent_id);
}

}  // namespace sparseagg
