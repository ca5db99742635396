// SHA-256, computed piece by piece: what makes two updates or two results "the same". Integers are
// hashed as little-endian bytes and strings with their length first, so that no two different
// inputs hash the same bytes.
#ifndef SPARSEAGG_SERVICE_STORE_DIGEST_H_
#define SPARSEAGG_SERVICE_STORE_DIGEST_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sparseagg {

inline constexpr size_t kDigestBytes = 32;

// Thread-compatible.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Bytes(std::string_view bytes);  // as they are
  Sha256& U32(uint32_t value);            // 4 bytes
  Sha256& U64(uint64_t value);            // 8 bytes
  Sha256& String(std::string_view text);  // U64(size), then the bytes
  // The digest, kDigestBytes bytes. Ends the computation: call it once.
  std::string Finish();

 private:
  void Flush();

  struct Context;
  std::unique_ptr<Context> context_;
  // Short pieces, which are hashed together: a call of OpenSSL takes longer than hashing them.
  std::array<char, 256> short_;
  size_t short_size_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_DIGEST_H_
