// Numbers in byte strings, little-endian, without alignment.
#ifndef SPARSEAGG_SPARSE_PARTIALS_LITTLE_ENDIAN_H_
#define SPARSEAGG_SPARSE_PARTIALS_LITTLE_ENDIAN_H_

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace sparseagg {

static_assert(std::endian::native == std::endian::little);

template <class T>
void AppendNumber(const T& number, std::string& out) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Takes a number from the front. Returns false, leaving both unchanged, if too few bytes are left.
template <class T>
[[nodiscard]] bool TakeNumber(std::string_view& bytes, T& number) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() < sizeof(number)) return false;
  std::memcpy(&number, bytes.data(), sizeof(number));
  bytes.remove_prefix(sizeof(number));
  return true;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_PARTIALS_LITTLE_ENDIAN_H_
