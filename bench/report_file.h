// The file that a benchmark writes: {"benchmark": name, "rows": [{column: value}, ...]}.
// bench/report.py adds machine, commit and date, and prints it as a table.
#ifndef SPARSEAGG_BENCH_REPORT_FILE_H_
#define SPARSEAGG_BENCH_REPORT_FILE_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace sparseagg::bench {

// Columns in the order they were set.
using Row = nlohmann::ordered_json;

// Writes to standard error and returns false when the file cannot be written.
bool WriteReport(const std::string& path, const std::string& benchmark,
                 const std::vector<Row>& rows);

// REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REPORT_FILE_H_
