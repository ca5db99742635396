#include "service/commands/check_config.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/server_security.h"
#include "service/store/files/data_directory.h"

namespace sparseagg {
namespace {

absl::Status CheckBackend(const std::string& name, std::span<const BackendFactory> backends) {
  const auto has_name = [&](const BackendFactory& factory) { return factory.name == name; };
  if (name == "auto" || std::any_of(backends.begin(), backends.end(), has_name)) {
    return absl::OkStatus();
  }
  std::string names = "auto";
  for (const BackendFactory& factory : backends) {
    absl::StrAppend(&names, ", ", std::string(factory.name));
  }
  return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_BACKEND",
                   absl::StrCat("backend is \"", name, "\"; this program has ", names));
}

// Whether an existing file can be written, or a new one created.
absl::Status CheckWritable(std::string_view setting, std::string_view reason,
                           const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code ignored;
  const auto error = [&](const std::string& why) {
    return MakeError(absl::StatusCode::kPermissionDenied, reason,
                     absl::StrCat(std::string(setting), ": cannot write ", path, ": ", why));
  };
  if (std::filesystem::is_directory(path, ignored)) return error("it is a directory");
  const bool is_there = std::filesystem::exists(path, ignored);
  std::string where = is_there ? path : std::filesystem::path(path).parent_path().string();
  if (where.empty()) where = ".";
  if (access(where.c_str(), is_there ? W_OK : W_OK | X_OK) == 0) return absl::OkStatus();
  return error(std::strerror(errno));
}

}  // namespace

std::vector<absl::Status> CheckConfig(const ServerConfig& config,
                                      std::span<const BackendFactory> backends) {
  std::vector<absl::Status> errors = {
      CheckBackend(config.backend, backends),
      CheckTransport(config),
      OpenAuthenticator(config, {}).status(),
      CheckWritable("audit-log", "AUDIT_UNWRITABLE", config.audit_log),
      CheckWritable("port-file", "PORT_FILE_UNWRITABLE", config.port_file),
      CheckWritable("admin-port-file", "PORT_FILE_UNWRITABLE", config.admin_port_file),
      CheckWritable("http-port-file", "PORT_FILE_UNWRITABLE", config.http_port_file),
      config.data_dir.empty() ? absl::OkStatus() : DataDirectory::Check(config.data_dir)};
  std::erase_if(errors, [](const absl::Status& status) { return status.ok(); });
  return errors;
}

}  // namespace sparseagg
