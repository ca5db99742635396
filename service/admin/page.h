// The status page: page.html, which CMake embeds in the program.
#ifndef SPARSEAGG_SERVICE_ADMIN_PAGE_H_
#define SPARSEAGG_SERVICE_ADMIN_PAGE_H_

#include <string_view>

namespace sparseagg {

extern const std::string_view kStatusPage;

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_PAGE_H_
