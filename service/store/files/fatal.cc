#include "service/store/files/fatal.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace sparseagg {

void EndProcess(std::string_view what, std::string_view why) {
  std::fprintf(stderr,
               "level=error msg=\"the store failed; the process ends without an acknowledgement\" "
               "what=\"%s\" why=\"%s\"\n",
               std::string(what).c_str(), std::string(why).c_str());
  std::fflush(stderr);
  _exit(kStoreFailedExit);
}

}  // namespace sparseagg
