// The origins whose web pages may use the HTTP edge (http-origins). A browser sends the header
// Origin with every POST, so a page of any other origin, also one that reaches the server by DNS
// rebinding, is refused. Programs that are no browser send none.
#ifndef SPARSEAGG_SERVICE_HTTP_ORIGINS_H_
#define SPARSEAGG_SERVICE_HTTP_ORIGINS_H_

#include <set>
#include <string>
#include <string_view>

namespace sparseagg {

class Origins {
 public:
  Origins() = default;
  // `list`: origins between commas ("https://app.example.org,http://localhost:8000"), or "*".
  explicit Origins(std::string_view list);

  bool Allows(std::string_view origin) const;

 private:
  bool all_ = false;
  std::set<std::string, std::less<>> origins_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_ORIGINS_H_
