// One frame of `sparseagg top`: a pure function of what the admin port answered.
#ifndef SPARSEAGG_CLIENT_CLI_TOP_SCREEN_H_
#define SPARSEAGG_CLIENT_CLI_TOP_SCREEN_H_

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace sparseagg::cli {

struct Screen {
  size_t columns = 110;
  size_t lines = 30;
  bool colours = false;  // of a terminal
};

// `status` is the answer of /api/status with at least one row of history, if there is one yet;
// `rounds` that of /api/rounds. At most screen.lines lines of at most screen.columns characters.
std::string DrawTop(const nlohmann::json& status, const nlohmann::json& rounds,
                    const Screen& screen);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TOP_SCREEN_H_
