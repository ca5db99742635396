#include "service/commands/store_command.h"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/engine/store_check.h"
#include "service/store/durable_store.h"

namespace sparseagg {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;

int Complain(const std::string& what) {
  std::cerr << "sparseagg: " << what << "\n";
  return kFailed;
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

absl::StatusOr<std::unique_ptr<UpdateStore>> Open(const DurableStoreOptions& options) {
  // Opening would create a missing directory.
  std::error_code error;
  if (!std::filesystem::exists(options.directory + "/store.db", error)) {
    return absl::NotFoundError(
        error ? absl::StrCat("cannot read ", options.directory, ": ", error.message())
              : absl::StrCat(options.directory, " is not a data directory: it has no store.db"));
  }
  return OpenDurableStore(options);
}

int Check(const std::string& directory, std::span<const BackendFactory> factories) {
  const auto store = Open({.directory = directory, .new_epoch = false});
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
  return damaged == 0 ? kDone : kFailed;
}

int Renew(const std::string& directory) {
  const auto store = Open({.directory = directory, .new_epoch = false, .new_store_id = true});
  if (!store.ok()) return Complain(std::string(store.status().message()));
  const StoreEpoch& epoch = (*store)->Epoch();
  std::cout << "store " << epoch.store_id << ", epoch " << epoch.epoch << "\n";
  return kDone;
}

void AddCommand(CLI::App& store, const std::string& name, const std::string& description,
                const std::function<void(const std::string& directory)>& run) {
  CLI::App* command = store.add_subcommand(name, description);
  const auto directory = std::make_shared<std::string>();
  command->add_option("DIR", *directory, "Data directory (--data-dir of the server)")->required();
  command->callback([directory, run] { run(*directory); });
}

}  // namespace

void AddStoreCommand(CLI::App& app, std::span<const BackendFactory> backends, int& exit_code) {
  CLI::App* store =
      app.add_subcommand("store", "Check or renew a data directory while no server uses it");
  store->require_subcommand(1);
  AddCommand(*store, "check",
             "Verify every checksum and digest, and compute every round that has its updates again "
             "with all back ends",
             [backends, &exit_code](const std::string& directory) {
               exit_code = Check(directory, backends);
             });
  AddCommand(*store, "renew",
             "Give the store a new id after a backup was restored, so that clients learn which "
             "rounds are lost",
             [&exit_code](const std::string& directory) { exit_code = Renew(directory); });
}

}  // namespace sparseagg
