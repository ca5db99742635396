// Decimal text as numbers: each conversion rounds at most once.
//
//   number   := ["+" | "-"] digits ["." digits] [exponent]      at least one digit before or behind
//   the point exponent := ("e" | "d" | "q") ["+" | "-"] digits            capitals too; d and q are
//   Fortran's
//             | ("+" | "-") digit digit digit                   Fortran, which drops the letter
//             before three digits
#ifndef SPARSEAGG_CLIENT_IO_DECIMAL_H_
#define SPARSEAGG_CLIENT_IO_DECIMAL_H_

#include <compare>
#include <optional>
#include <string_view>

#include "sparse/float_format.h"

namespace sparseagg::client {

// The number of `format` that is nearest to the text's exact value, ties to even; infinity beyond
// the range, a zero with the text's sign below it. nullopt when the text is not a number.
std::optional<double> ParseDecimal(std::string_view text, FloatFormat format);

// The value of a text that stands for a whole number, as "3", "3.0" and "3e2" do. nullopt when it
// does not, or when the number has more than 20 digits (64 bits have no more).
std::optional<Int128> ParseWholeDecimal(std::string_view text);

// The order of the text's exact value and a finite double. REQUIRES: `text` is a number.
std::strong_ordering CompareDecimal(std::string_view text, double value);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_DECIMAL_H_
