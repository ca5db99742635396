#include "bench/report_file.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace sparseagg::bench {

bool WriteReport(const std::string& path, const std::string& benchmark,
                 const std::vector<Row>& rows) {
  nlohmann::ordered_json report;
  report["benchmark"] = benchmark;
  report["rows"] = rows;
  std::ofstream file(path);
  file << report.dump(1) << '\n';
  if (file.flush()) return true;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return false;
}

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  return values[middle];
}

}  // namespace sparseagg::bench
