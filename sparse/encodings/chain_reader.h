// Reads the pieces of a ByteChain as one array, front to back.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_CHAIN_READER_H_
#define SPARSEAGG_SPARSE_ENCODINGS_CHAIN_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sparse/encoding.h"

namespace sparseagg {

class ChainReader {
 public:
  explicit ChainReader(ByteChain chain) : chain_(chain) {}

  // Copies the next `bytes` bytes. REQUIRES: the chain has as many left.
  void Read(void* out, size_t bytes) {
    if (piece_ < chain_.size() && chain_[piece_].size() - at_ > bytes) {  // most reads are small
      std::memcpy(out, chain_[piece_].data() + at_, bytes);
      at_ += bytes;
      return;
    }
    auto* to = static_cast<char*>(out);
    ForEachPart(bytes, [&](const char* part, size_t size) {
      std::memcpy(to, part, size);
      to += size;
    });
  }

  // Skips the next `bytes` bytes. REQUIRES: the chain has as many left.
  void Skip(size_t bytes) {
    ForEachPart(bytes, [](const char*, size_t) {});
  }

  // Returns the next `bytes` bytes as one piece that is readable up to `slack` bytes beyond its
  // end: in place if the chain has them so, otherwise copied to `scratch`, [bytes + slack].
  // REQUIRES: the chain has `bytes` left.
  const char* Take(size_t bytes, size_t slack, char* scratch) {
    if (piece_ < chain_.size() && chain_[piece_].size() - at_ >= bytes + slack) {
      const char* in_place = chain_[piece_].data() + at_;
      at_ += bytes;
      return in_place;
    }
    Read(scratch, bytes);
    std::memset(scratch + bytes, 0, slack);
    return scratch;
  }

 private:
  template <class F>
  void ForEachPart(size_t bytes, F f) {
    while (bytes > 0) {
      const size_t take = std::min(bytes, chain_[piece_].size() - at_);
      if (take > 0) f(chain_[piece_].data() + at_, take);
      bytes -= take;
      at_ += take;
      if (at_ == chain_[piece_].size()) {
        ++piece_;
        at_ = 0;
      }
    }
  }

  ByteChain chain_;
  size_t piece_ = 0;
  size_t at_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_CHAIN_READER_H_
