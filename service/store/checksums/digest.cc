#include "service/store/checksums/digest.h"

#include <openssl/evp.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace sparseagg {

struct Sha256::Context {
  EVP_MD_CTX* md = nullptr;
  ~Context() { EVP_MD_CTX_free(md); }
};

namespace {

// OpenSSL fails here only without memory or without SHA-256, which no caller could handle.
void Check(bool ok) {
  if (ok) return;
  std::fputs("OpenSSL cannot compute SHA-256\n", stderr);
  std::abort();
}

}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  // With EVP_sha256(), OpenSSL would look the algorithm up for each digest, which takes as long as
  // hashing 1 KB.
  static const EVP_MD* const kAlgorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  context_->md = EVP_MD_CTX_new();
  Check(kAlgorithm != nullptr && context_->md != nullptr &&
        EVP_DigestInit_ex(context_->md, kAlgorithm, nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Flush() {
  Check(EVP_DigestUpdate(context_->md, short_.data(), std::exchange(short_size_, 0)) == 1);
}

Sha256& Sha256::Bytes(std::string_view bytes) {
  if (bytes.size() > short_.size() - short_size_) Flush();
  if (bytes.size() <= short_.size()) {
    short_size_ += bytes.copy(short_.data() + short_size_, bytes.size());
    return *this;
  }
  Check(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
  return *this;
}

std::string Sha256::Finish() {
  Flush();
  std::string digest(kDigestBytes, '\0');
  unsigned int size = 0;
  Check(EVP_DigestFinal_ex(context_->md, reinterpret_cast<unsigned char*>(digest.data()), &size) ==
            1 &&
        size == kDigestBytes);
  return digest;
}

}  // namespace sparseagg
