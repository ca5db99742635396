#include "service/rpc/local/forwarded_caller.h"

#include <cstdint>
#include <random>
#include <string_view>

namespace sparseagg {
namespace {

constexpr char kSecretKey[] = "x-sparseagg-forwarded-secret-bin";
constexpr char kPeerKey[] = "x-sparseagg-forwarded-peer-bin";
constexpr char kNameKey[] = "x-sparseagg-forwarded-name-bin";

std::string NewSecret() {
  constexpr int kBytes = 32;
  std::random_device random;  // the system's, which cannot be predicted
  std::string secret;
  for (int i = 0; i < kBytes; ++i) secret.push_back(static_cast<char>(random() & 0xFF));
  return secret;
}

const std::string& Secret() {
  static const std::string& secret = *new std::string(NewSecret());
  return secret;
}

// Takes the same time wherever the first difference is.
bool IsSecret(std::string_view text) {
  const std::string& secret = Secret();
  if (text.size() != secret.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < secret.size(); ++i) {
    difference |= static_cast<uint8_t>(text[i]) ^ static_cast<uint8_t>(secret[i]);
  }
  return difference == 0;
}

std::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

}  // namespace

void AddForwardedCaller(const ForwardedCaller& caller, grpc::ClientContext& context) {
  context.AddMetadata(kSecretKey, Secret());
  context.AddMetadata(kPeerKey, caller.peer);
  for (const std::string& name : caller.certificate_names) context.AddMetadata(kNameKey, name);
}

std::optional<ForwardedCaller> ReadForwardedCaller(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto secret = metadata.find(kSecretKey);
  if (secret == metadata.end() || !IsSecret(View(secret->second))) return std::nullopt;
  ForwardedCaller caller;
  if (const auto peer = metadata.find(kPeerKey); peer != metadata.end()) {
    caller.peer = View(peer->second);
  }
  const auto [begin, end] = metadata.equal_range(kNameKey);
  for (auto name = begin; name != end; ++name) {
    caller.certificate_names.emplace_back(View(name->second));
  }
  return caller;
}

}  // namespace sparseagg
