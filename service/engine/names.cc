#include "service/engine/names.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

constexpr size_t kRoundIdBytesMax = 63;
constexpr size_t kRequestIdBytesMax = 64;
constexpr size_t kContributorBytesMax = 128;
constexpr size_t kUpdateIdBytesMax = 64;

// A set of characters as a table, because names are validated for every small update.
class Alphabet {
 public:
  constexpr explicit Alphabet(std::string_view characters) {
    for (const char c : characters) has_[static_cast<unsigned char>(c)] = true;
  }
  bool HasAllOf(std::string_view text) const {
    return std::ranges::all_of(text, [this](unsigned char c) { return has_[c]; });
  }

 private:
  std::array<bool, 256> has_{};
};

constexpr Alphabet kOfRoundId("abcdefghijklmnopqrstuvwxyz0123456789-");
constexpr Alphabet kOfContributor(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@|/-");
constexpr Alphabet kOfUpdateId("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

bool IsRoundId(std::string_view id) {
  return !id.empty() && id.size() <= kRoundIdBytesMax && absl::ascii_islower(id[0]) &&
         kOfRoundId.HasAllOf(id);
}

constexpr std::string_view kTenantPrefix = "tenants/";

// Returns the length of the tenant's prefix of a qualified name, including the slash behind it.
size_t TenantPrefixBytes(std::string_view qualified) {
  if (!qualified.starts_with(kTenantPrefix)) return 0;
  const size_t slash = qualified.find('/', kTenantPrefix.size());
  return slash == std::string_view::npos ? 0 : slash + 1;
}

absl::Status Invalid(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

// Returns whether a character is a control, starts a line or changes the direction of text: a name
// must not change how the rest of a message looks.
bool ChangesLayout(char32_t c) {
  return c < 0xA0 || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2069) || c == 0xFEFF;
}

// Returns the bytes of the first character of `text` if it is beyond ASCII, in valid UTF-8 (RFC
// 3629) and printable; otherwise 0.
size_t ShownCharacter(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : byte(0) >= 0xC0 ? 2 : 0;
  if (length == 0 || text.size() < length) return 0;
  char32_t c = byte(0) & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    c = c << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = c >= kLeast[length] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
  return valid && byte(0) < 0xF8 && !ChangesLayout(c) ? length : 0;
}

}  // namespace

std::string QualifiedName(std::string_view tenant, std::string_view name) {
  if (tenant == kDefaultTenant) return std::string(name);
  return absl::StrCat(std::string(kTenantPrefix), std::string(tenant), "/", std::string(name));
}

std::string_view TenantOf(std::string_view qualified) {
  const size_t bytes = TenantPrefixBytes(qualified);
  if (bytes == 0) return kDefaultTenant;
  return qualified.substr(kTenantPrefix.size(), bytes - 1 - kTenantPrefix.size());
}

std::string_view PublicName(std::string_view qualified) {
  return qualified.substr(TenantPrefixBytes(qualified));
}

absl::Status ValidateTenant(std::string_view tenant) {
  if (IsRoundId(tenant)) return absl::OkStatus();
  return Invalid("INVALID_TENANT",
                 absl::StrCat("tenant ", Quoted(tenant), " is not 1 to ", kRoundIdBytesMax,
                              " characters of [a-z0-9-] starting with a letter"));
}

absl::Status ValidateRoundId(std::string_view round_id) {
  if (IsRoundId(round_id)) return absl::OkStatus();
  return Invalid("INVALID_ROUND_ID",
                 absl::StrCat("round id ", Quoted(round_id), " is not 1 to ", kRoundIdBytesMax,
                              " characters of [a-z0-9-] starting with a letter"));
}

absl::Status ValidateRoundName(std::string_view name) {
  if (name.starts_with(kRoundPrefix) && IsRoundId(name.substr(kRoundPrefix.size()))) {
    return absl::OkStatus();
  }
  return Invalid(
      "INVALID_ROUND_NAME",
      absl::StrCat("round name ", Quoted(name),
                   " is not \"rounds/\" followed by an id of [a-z0-9-] starting with a letter"));
}

absl::Status ValidateRequestId(std::string_view request_id) {
  const bool printable = std::all_of(request_id.begin(), request_id.end(), absl::ascii_isprint);
  if (request_id.size() <= kRequestIdBytesMax && printable) return absl::OkStatus();
  return Invalid("INVALID_REQUEST_ID",
                 absl::StrCat("request id ", Quoted(request_id), " is not at most ",
                              kRequestIdBytesMax, " printable ASCII characters"));
}

absl::Status ValidateContributor(std::string_view contributor) {
  if (!contributor.empty() && contributor.size() <= kContributorBytesMax &&
      kOfContributor.HasAllOf(contributor)) {
    return absl::OkStatus();
  }
  return Invalid("INVALID_CONTRIBUTOR",
                 absl::StrCat("contributor ", Quoted(contributor), " is not 1 to ",
                              kContributorBytesMax, " characters of [A-Za-z0-9._:@|/-]"));
}

absl::Status ValidateUpdateId(std::string_view update_id) {
  if (!update_id.empty() && update_id.size() <= kUpdateIdBytesMax &&
      kOfUpdateId.HasAllOf(update_id)) {
    return absl::OkStatus();
  }
  return Invalid("INVALID_UPDATE_ID",
                 absl::StrCat("update id ", Quoted(update_id), " is not 1 to ", kUpdateIdBytesMax,
                              " characters of [A-Za-z0-9._-]"));
}

std::string Quoted(std::string_view name) {
  constexpr size_t kShownBytes = 80;
  std::string text = "\"";
  size_t at = 0;
  while (at < name.size()) {
    const size_t length = ShownCharacter(name.substr(at));
    const std::string character(name.substr(at, std::max<size_t>(length, 1)));
    if (at + character.size() > kShownBytes) break;
    text += length > 0 ? character : absl::CEscape(character);
    at += character.size();
  }
  return absl::StrCat(text, at < name.size() ? "...\"" : "\"");
}

}  // namespace sparseagg
