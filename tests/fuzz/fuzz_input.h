// What fuzz targets share: numbers and strings out of the input, and a check that ends the process.
#ifndef SPARSEAGG_TESTS_FUZZ_FUZZ_INPUT_H_
#define SPARSEAGG_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

// The function that libFuzzer and driver.cc call.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace sparseagg::fuzz {

// Takes from the front; an input that is used up gives zeros, so that every input means something.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), data == nullptr ? 0 : size) {}

  template <class T>
  T Take() {
    T value{};
    const std::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // One byte of the input. REQUIRES: 1 <= bound <= 256.
  size_t Below(size_t bound) { return Take<uint8_t>() % bound; }
  // At most `size` bytes.
  std::string_view Bytes(size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view Rest() { return Bytes(rest_.size()); }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

// Ends the process, and thereby the run, when `good` is false.
inline void Require(bool good, std::string_view what) {
  if (good) return;
  std::fprintf(stderr, "fuzz target: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace sparseagg::fuzz

#endif  // SPARSEAGG_TESTS_FUZZ_FUZZ_INPUT_H_
