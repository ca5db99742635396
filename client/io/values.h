// Converts values between types, and to and from text, for reading and writing files. The numerics
// of a reduction are in sparse/.
#ifndef SPARSEAGG_CLIENT_IO_VALUES_H_
#define SPARSEAGG_CLIENT_IO_VALUES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/tensor.h"

namespace sparseagg::client {

// Converts the values of `tensor` to `type`: to a floating type by rounding to nearest, ties to
// even; to an integer type only if every value is a whole number in its range. Otherwise
// OUT_OF_RANGE (VALUE_NOT_REPRESENTABLE), which names the entry; also for a finite value that would
// become an infinity.
absl::Status ConvertValues(ValueType type, Tensor& tensor);

// Reads one number of `type` from `text`, all of it, into `out` (SizeOf(type) bytes). Decimal text
// (decimal.h) is rounded once, to nearest with ties to even; for an integer type it must denote a
// whole number ("3", "3.0", "3e2"). Returns false if it is not a finite number of the type.
bool ParseValue(std::string_view text, ValueType type, std::byte* out);

// Appends the shortest text that ParseValue() reads back to the same bits.
void AppendValue(ValueType type, const std::byte* value, std::string& out);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_VALUES_H_
