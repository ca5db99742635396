#include "service/token_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

absl::StatusOr<Json> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Json{{"credentials", Json::array()}};  // the first of a new file
  std::ostringstream text;
  text << file.rdbuf();
  if (const auto table = CredentialTable::Parse(text.str()); !table.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(table.status().message())));
  }
  return Json::parse(text.str(), nullptr, true, /*ignore_comments=*/true);
}

// Under another name and renamed: a server that reads the file never sees half of it.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".tmp";
  const int file = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = file >= 0 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(file) == 0;
  if (file >= 0) close(file);
  if (written && std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status AddToken(const TokenArgs& args) {
  auto file = ReadFile(args.file);
  if (!file.ok()) return file.status();
  const std::string token = NewToken();
  Json row = {{"token_sha256", ToHex(DigestOf(token))},
              {"tenant", args.tenant},
              {"principal", args.principal},
              {"roles", args.roles}};
  if (!args.expires.empty()) row["expires"] = args.expires;
  (*file)["credentials"].push_back(std::move(row));
  const std::string text = file->dump(2) + "\n";
  if (const auto table = CredentialTable::Parse(text); !table.ok()) {
    return absl::InvalidArgumentError(std::string(table.status().message()));
  }
  if (absl::Status written = WriteFile(args.file, text); !written.ok()) return written;
  std::cout << token << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddTokenCommand(CLI::App& app, int& exit_code) {
  CLI::App* token = app.add_subcommand("token", "Bearer tokens for the credentials file");
  token->require_subcommand(1);
  CLI::App* made = token->add_subcommand(
      "new",
      "Print a new token, and add who has it to the credentials file, which keeps its digest");
  const auto args = std::make_shared<TokenArgs>();
  made->add_option("FILE", args->file, "The server's --credentials; made when it is not there")
      ->required();
  made->add_option("--principal", args->principal, "Who has the token")->required();
  made->add_option("--role", args->roles, "operator, owner, contributor or reader; may be repeated")
      ->required()
      ->allow_extra_args(false);
  made->add_option("--tenant", args->tenant, "Whose rounds these are")->default_val("default");
  made->add_option("--expires", args->expires, "When it ends: 2027-01-31T00:00:00Z");
  made->callback([args, &exit_code] {
    const absl::Status status = AddToken(*args);
    if (status.ok()) return;
    std::cerr << "sparseagg: " << status.message() << "\n";
    exit_code = 1;
  });
}

}  // namespace sparseagg
