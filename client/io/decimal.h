// Parses decimal text; each conversion rounds at most once.
//
//   number   := ["+" | "-"] digits ["." digits] [exponent]
//   exponent := ("e" | "d" | "q") ["+" | "-"] digits
//             | ("+" | "-") digit digit digit
//
// A number has at least one digit before or after the point. The letter of an exponent may be a
// capital; "d" and "q" are Fortran's, which omits the letter before an exponent of three digits.
#ifndef SPARSEAGG_CLIENT_IO_DECIMAL_H_
#define SPARSEAGG_CLIENT_IO_DECIMAL_H_

#include <compare>
#include <optional>
#include <string_view>

#include "sparse/float_format.h"

namespace sparseagg::client {

// The number of `format` that is nearest to the text's exact value, ties to even; infinity above
// the range, a zero with the text's sign below it. nullopt if the text is not a number.
std::optional<double> ParseDecimal(std::string_view text, FloatFormat format);

// The value of a text that denotes a whole number, such as "3", "3.0" and "3e2". nullopt if it does
// not, or if the number has more than 20 digits (no 64-bit number has more).
std::optional<Int128> ParseWholeDecimal(std::string_view text);

// The order of the text's exact value and a finite double. REQUIRES: `text` is a number.
std::strong_ordering CompareDecimal(std::string_view text, double value);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_DECIMAL_H_
