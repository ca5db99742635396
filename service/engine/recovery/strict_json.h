// JSON as the store has it, whose integers are read as what was written or not at all.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_STRICT_JSON_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_STRICT_JSON_H_

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sparseagg {

// Thrown for a value that no writer writes.
class NotWritten : public std::exception {};

// Reads integers only from JSON integers within the range of the type. The library would accept any
// number and convert fractions and values out of range silently.
template <class T, class = void>
struct StrictNumbers : nlohmann::adl_serializer<T> {};
template <class T>
struct StrictNumbers<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  template <class Json>
  static void from_json(const Json& value, T& to) {
    if (value.is_number_unsigned()) {
      Take(value.template get_ref<const uint64_t&>(), to);
    } else if (value.is_number_integer()) {
      Take(value.template get_ref<const int64_t&>(), to);
    } else {
      throw NotWritten();
    }
  }
  template <class Json>
  static void to_json(Json& json, T value) {
    nlohmann::to_json(json, value);
  }

 private:
  template <class Number>
  static void Take(Number number, T& to) {
    if (!std::in_range<T>(number)) throw NotWritten();
    to = static_cast<T>(number);
  }
};

using StrictJson = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t,
                                        double, std::allocator, StrictNumbers>;

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_STRICT_JSON_H_
