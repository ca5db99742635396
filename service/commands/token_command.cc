#include "service/commands/token_command.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/auth/credential_table.h"
#include "service/auth/token.h"
#include "service/store/files/file_io.h"

namespace sparseagg {
namespace {

using Json = nlohmann::ordered_json;

struct TokenArgs {
  std::string file;
  std::string tenant;
  std::string principal;
  std::vector<std::string> roles;
  std::string expires;
};

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

absl::Status Cannot(const char* what, const std::string& path, int error) {
  return absl::PermissionDeniedError(
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error)));
}

// Resolves symbolic links, so that the new file does not replace a link.
std::filesystem::path Target(std::filesystem::path path) {
  constexpr int kLinksMax = 40;  // the system's limit
  std::error_code ignored;
  for (int i = 0; i < kLinksMax && std::filesystem::is_symlink(path, ignored); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, ignored);
  }
  return path;
}

absl::StatusOr<Json> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file && errno == ENOENT) return Json{{"credentials", Json::array()}};
  if (!file) return Cannot("read", path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  if (const auto table = CredentialTable::Parse(text.str()); !table.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(table.status().message())));
  }
  if (!Json::accept(text.str())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has comments, which would be lost; give another FILE, and copy its ",
                     "row into \"credentials\" of ", path, " by hand"));
  }
  return Json::parse(text.str());
}

// Writes the file under another name and renames it, so that a server never reads half of it. The
// new file has the owner and mode of the old one, so that the server's user can still read it.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".tmp";
  unlink(unfinished.c_str());  // left by a command that was killed
  struct stat old = {};
  const bool is_new = stat(path.c_str(), &old) != 0;
  const Descriptor file(
      open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const int number = file.number();
  const bool kept = number >= 0 && (is_new || (fchown(number, old.st_uid, old.st_gid) == 0 &&
                                               fchmod(number, old.st_mode & ALLPERMS) == 0));
  int error = kept ? WriteAll(number, text) : errno;
  if (kept && error == 0) {
    if (fsync(number) == 0 && std::rename(unfinished.c_str(), path.c_str()) == 0) {
      return absl::OkStatus();
    }
    error = errno;
  }
  unlink(unfinished.c_str());
  return Cannot(kept ? "write" : "keep the owner and mode of", path, error);
}

absl::Status AddToken(const TokenArgs& args) {
  const std::filesystem::path path = Target(args.file);
  // The lock keeps concurrent commands from losing each other's row. It is on the folder, because
  // the file is replaced.
  const Descriptor folder(open(path.has_parent_path() ? path.parent_path().c_str() : ".",
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0 || flock(folder.number(), LOCK_EX) != 0) {
    return Cannot("lock the folder of", path, errno);
  }
  auto file = ReadFile(path);
  if (!file.ok()) return file.status();
  const std::string token = NewToken();
  Json row = {{"token_sha256", ToHex(DigestOf(token))},
              {"tenant", args.tenant},
              {"principal", args.principal},
              {"roles", args.roles}};
  if (!args.expires.empty()) row["expires"] = args.expires;
  (*file)["credentials"].push_back(std::move(row));
  const std::string text = file->dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (const auto table = CredentialTable::Parse(text); !table.ok()) {
    return absl::InvalidArgumentError(std::string(table.status().message()));
  }
  if (absl::Status written = WriteFile(path, text); !written.ok()) return written;
  std::cout << token << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddTokenCommand(CLI::App& app, int& exit_code) {
  CLI::App* token = app.add_subcommand("token", "Bearer tokens for the credentials file");
  token->require_subcommand(1);
  CLI::App* made = token->add_subcommand(
      "new", "Print a new token, and add a row with its digest to the credentials file");
  const auto args = std::make_shared<TokenArgs>();
  made->add_option("FILE", args->file,
                   "Credentials file (--credentials of the server); created if it does not exist")
      ->required();
  made->add_option("--principal", args->principal, "Name of the caller with this token")
      ->required();
  made->add_option("--role", args->roles,
                   "operator, owner, contributor, reader or worker (may be repeated)")
      ->required()
      ->allow_extra_args(false);
  made->add_option("--tenant", args->tenant, "Tenant of the caller")->default_val("default");
  made->add_option("--expires", args->expires, "When the token expires: 2027-01-31T00:00:00Z");
  made->callback([args, &exit_code] {
    const absl::Status status = AddToken(*args);
    if (status.ok()) return;
    std::cerr << "sparseagg: " << status.message() << "\n";
    exit_code = 1;
  });
}

}  // namespace sparseagg
