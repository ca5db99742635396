// Draws one frame of `sparseagg top` from the answers of the admin port.
#ifndef SPARSEAGG_CLIENT_CLI_TOP_SCREEN_H_
#define SPARSEAGG_CLIENT_CLI_TOP_SCREEN_H_

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace sparseagg::cli {

struct Screen {
  size_t columns = 110;
  size_t lines = 30;
  bool colours = false;  // ANSI colours
};

// `status` is the answer of /api/status with at least the last row of history, if there is one;
// `rounds` is that of /api/rounds. Returns at most screen.lines lines of at most screen.columns
// characters.
std::string DrawTop(const nlohmann::json& status, const nlohmann::json& rounds,
                    const Screen& screen);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_TOP_SCREEN_H_
