// SHA-256, computed incrementally. Two updates, or two results, are the same if their digests are
// equal. Integers are hashed as little-endian bytes and strings with their length first, so that
// two different inputs never hash the same bytes.
#ifndef SPARSEAGG_SERVICE_STORE_CHECKSUMS_DIGEST_H_
#define SPARSEAGG_SERVICE_STORE_CHECKSUMS_DIGEST_H_

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sparseagg {

inline constexpr size_t kDigestBytes = 32;

// Turns integers and strings into bytes for a Digest that has Bytes().
template <class Digest>
class DigestInput {
 public:
  Digest& U32(uint32_t value) { return Integer(value); }  // 4 bytes
  Digest& U64(uint64_t value) { return Integer(value); }  // 8 bytes
  // U64(size), then the bytes.
  Digest& String(std::string_view text) { return U64(text.size()).Bytes(text); }

 private:
  static_assert(std::endian::native == std::endian::little);
  template <class Value>
  Digest& Integer(Value value) {
    return static_cast<Digest*>(this)->Bytes(
        {reinterpret_cast<const char*>(&value), sizeof(value)});
  }
};

// Thread-compatible.
class Sha256 : public DigestInput<Sha256> {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Bytes(std::string_view bytes);  // without a length
  // Returns the digest of kDigestBytes bytes. Call it once; it ends the computation.
  std::string Finish();

 private:
  void Flush();

  struct Context;
  std::unique_ptr<Context> context_;
  // A buffer in which short pieces are collected, because a call of OpenSSL takes longer than
  // hashing them.
  std::array<char, 256> short_;
  size_t short_size_ = 0;
};

inline std::string Sha256Of(std::string_view bytes) { return Sha256().Bytes(bytes).Finish(); }

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_CHECKSUMS_DIGEST_H_
