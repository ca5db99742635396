// The calls of the HTTP edge, taken from the service descriptors of the protocol: a new service
// needs one line in method_table.cc, a new call nothing.
#ifndef SPARSEAGG_SERVICE_HTTP_METHOD_TABLE_H_
#define SPARSEAGG_SERVICE_HTTP_METHOD_TABLE_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace sparseagg {

struct HttpMethod {
  std::string path;           // "/sparseagg.v1.AggregationService/GetRound"
  std::string request_type;   // "sparseagg.v1.GetRoundRequest"
  std::string response_type;  // "sparseagg.v1.Round"
  bool streams = false;       // it has a stream, so that HTTP has no form for it
};

// Constant after its construction.
class MethodTable {
 public:
  MethodTable();
  // Returns null if there is no such call.
  const HttpMethod* Find(std::string_view path) const;
  const std::map<std::string, HttpMethod, std::less<>>& methods() const { return methods_; }

 private:
  std::map<std::string, HttpMethod, std::less<>> methods_;  // by path
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_METHOD_TABLE_H_
