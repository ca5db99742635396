#include "service/config/listen_address.h"

#include <sys/un.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/host_port.h"

namespace sparseagg {
namespace {

std::string OriginError(const std::string& origin) {
  if (origin == "*") return "";
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view host = std::string_view(origin).substr(scheme.size());
    if (host.empty()) return absl::StrCat(origin, " has no host");
    if (host.find_first_of("/?#@ ") != std::string_view::npos) {
      return absl::StrCat(origin, " has more than scheme, host and port; a browser sends no more");
    }
    if (host.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string_view::npos) {
      return absl::StrCat(origin, " has capital letters; a browser sends small ones");
    }
    return "";
  }
  return absl::StrCat(origin, " begins neither with https:// nor with http://");
}

}  // namespace

std::string ListenAddressError(std::string_view address) {
  if (address.starts_with("unix-abstract:")) return "";
  constexpr std::string_view kUnix = "unix:";
  if (!address.starts_with(kUnix)) return HostAndPortError(address);
  const size_t bytes = address.size() - kUnix.size();
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (bytes == 0) return "the path is missing";
  return bytes <= kPathMax ? "" : absl::StrCat("the path has more than ", kPathMax, " bytes");
}

std::string BoundAddress(const std::string& listen, int port) {
  return port == 0 ? listen : absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

std::string LeavesError(std::string_view list) {
  if (list.empty()) return "";
  const std::vector<std::string> leaves =
      absl::StrSplit(absl::string_view(list.data(), list.size()), ',');
  for (const std::string& leaf : leaves) {
    const size_t equals = leaf.find('=');
    const std::string address = equals == std::string::npos ? leaf : leaf.substr(equals + 1);
    if (equals == 0) return absl::StrCat(leaf, " has no id before the =");
    const std::string wrong = DialAddressError(address);
    if (!wrong.empty()) return absl::StrCat("leaf ", leaf, ": ", wrong);
  }
  return "";
}

std::string OriginsError(std::string_view list) {
  const std::vector<std::string> origins =
      absl::StrSplit(absl::string_view(list.data(), list.size()), ',');
  for (const std::string& origin : origins) {
    if (std::string wrong = OriginError(origin); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace sparseagg
