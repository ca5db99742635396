// Simulations of a tree of servers from many seeds (tree_simulation.h). A failure names its seed:
//
//   SPARSEAGG_TREE_SIM_SEED=N sim_tree_sim_test        runs that one and prints its steps.
//
// SPARSEAGG_TREE_SIM_SEEDS (100) is the number of seeds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/sim/tree_simulation.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::sim {
namespace {

constexpr int kSteps = 400;

std::filesystem::path Memory() {
  return std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

std::string RunSeed(uint64_t seed, bool verbose, TreeCounts& total) {
  const testing::TemporaryFolder folder(Memory());
  TreeSimulation simulation(seed, folder.path(), [verbose](const std::string& step) {
    if (verbose) std::cout << step << "\n";
  });
  const std::string wrong = simulation.Run(kSteps);
  const TreeCounts& counts = simulation.counts();
  total.accepted += counts.accepted;
  total.duplicates += counts.duplicates;
  total.strays += counts.strays;
  total.published += counts.published;
  total.early += counts.early;
  total.divided += counts.divided;
  total.compared += counts.compared;
  total.read += counts.read;
  total.given_up += counts.given_up;
  total.lost += counts.lost;
  total.crashes += counts.crashes;
  total.disk_errors += counts.disk_errors;
  return wrong;
}

TEST(TreeSimTest, NoReceiptIsForgottenAndNothingCountsTwice) {
  TreeCounts total;
  if (const char* seed = std::getenv("SPARSEAGG_TREE_SIM_SEED"); seed != nullptr) {
    EXPECT_EQ(RunSeed(std::strtoull(seed, nullptr, 10), true, total), "");
    return;
  }
  const int seeds = testing::Effort("SPARSEAGG_TREE_SIM_SEEDS", 100);
  for (int seed = 1; seed <= seeds; ++seed) {
    ASSERT_EQ(RunSeed(static_cast<uint64_t>(seed), false, total), "")
        << "SPARSEAGG_TREE_SIM_SEED=" << seed << " runs it again and prints its steps";
  }
  std::cout << seeds << " seeds: " << total.accepted << " updates, " << total.duplicates
            << " resends, " << total.strays << " at another server, " << total.published
            << " results, " << total.early << " of them before the end, " << total.divided
            << " of these divided, " << total.compared << " compared with one server's, "
            << total.read << " read, " << total.given_up << " leaves given up, " << total.lost
            << " emptied, " << total.crashes << " crashes, " << total.disk_errors
            << " errors of a disk\n";
  // Each of these must happen, because a simulation without an event does not test it.
  EXPECT_GT(total.accepted, static_cast<uint64_t>(5 * seeds));
  EXPECT_GT(total.duplicates, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.published, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.divided, static_cast<uint64_t>(seeds / 8));
  EXPECT_GT(total.compared, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.read, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.crashes, static_cast<uint64_t>(5 * seeds));
  EXPECT_GT(total.disk_errors, static_cast<uint64_t>(seeds / 2));
  EXPECT_GT(total.given_up, 0u);
  EXPECT_GT(total.lost, 0u);
}

}  // namespace
}  // namespace sparseagg::sim
