#include "service/store_command.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/engine/store_check.h"
#include "service/store/durable_store.h"

namespace sparseagg {
namespace {

constexpr int kSound = 0;
constexpr int kNotSound = 1;

int Complain(const std::string& what) {
  std::cerr << "sparseagg: " << what << "\n";
  return kNotSound;
}

void Print(const RoundCheck& check) {
  std::string line =
      absl::StrCat(check.name, "  ", std::string(RoundStateName(check.state)), "  ",
                   check.contributors, " updates  ", check.bytes_received, " bytes  ");
  if (check.problem.empty()) {
    absl::StrAppend(&line, "sound");
    if (!check.result_digest.empty()) {
      absl::StrAppend(&line, "  result ", absl::BytesToHexString(check.result_digest));
    }
  } else {
    absl::StrAppend(&line, "DAMAGED: ", check.problem);
  }
  std::cout << line << "\n";
}

int Check(const std::string& directory, std::span<const BackendFactory> factories) {
  // Opening would make what is not there.
  std::error_code error;
  if (!std::filesystem::exists(directory + "/store.db", error)) {
    return Complain(error ? absl::StrCat("cannot look into ", directory, ": ", error.message())
                          : absl::StrCat(directory, " is no data directory: it has no store.db"));
  }
  const auto store = OpenDurableStore({.directory = directory, .new_epoch = false});
  if (!store.ok()) return Complain(std::string(store.status().message()));
  std::vector<std::unique_ptr<Backend>> backends;
  for (const BackendFactory& factory : factories) {
    auto backend = factory.make({});
    if (backend.ok()) backends.push_back(*std::move(backend));
  }
  size_t damaged = 0;
  const std::vector<RoundCheck> checks = CheckStore(**store, backends);
  for (const RoundCheck& check : checks) {
    Print(check);
    if (!check.problem.empty()) ++damaged;
  }
  for (const Tombstone& tombstone : (*store)->Tombstones()) {
    if (!tombstone.damaged) continue;
    std::cout << tombstone.round << "  deleted  DAMAGED: its row fails its checksum\n";
    ++damaged;
  }
  std::cout << checks.size() << " rounds, " << damaged << " damaged\n";
  return damaged == 0 ? kSound : kNotSound;
}

}  // namespace

void AddStoreCommand(CLI::App& app, std::span<const BackendFactory> backends, int& exit_code) {
  CLI::App* store =
      app.add_subcommand("store", "Look at a data directory while no server runs on it");
  store->require_subcommand(1);
  CLI::App* check = store->add_subcommand("check",
                                          "Verify every checksum and digest, and fold every round "
                                          "whose updates are there on all back ends");
  const auto directory = std::make_shared<std::string>();
  check->add_option("DIR", *directory, "What the server was given as --data-dir")->required();
  check->callback([directory, backends, &exit_code] { exit_code = Check(*directory, backends); });
}

}  // namespace sparseagg
