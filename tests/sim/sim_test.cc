// Simulations from many seeds (simulation.h). A failure names its seed:
//
//   SPARSEAGG_SIM_SEED=N sim_test        runs that one and prints its steps.
//
// SPARSEAGG_SIM_SEEDS (300) is the number of seeds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/sim/simulation.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::sim {
namespace {

constexpr int kSteps = 120;

std::filesystem::path Memory() {
  return std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

std::string RunSeed(uint64_t seed, bool verbose, Counts& total) {
  const testing::TemporaryFolder folder(Memory());
  Simulation simulation(seed, folder.path(), [verbose](const std::string& step) {
    if (verbose) std::cout << step << "\n";
  });
  const std::string differs = simulation.Run(kSteps);
  const Counts& counts = simulation.counts();
  total.steps += counts.steps;
  total.accepted += counts.accepted;
  total.duplicates += counts.duplicates;
  total.refused += counts.refused;
  total.published += counts.published;
  total.crashes += counts.crashes;
  total.disk_errors += counts.disk_errors;
  total.devices_lost += counts.devices_lost;
  return differs;
}

TEST(SimTest, WhateverHappensTheEngineIsTheModel) {
  Counts total;
  if (const char* seed = std::getenv("SPARSEAGG_SIM_SEED"); seed != nullptr) {
    EXPECT_EQ(RunSeed(std::strtoull(seed, nullptr, 10), true, total), "");
    return;
  }
  const int seeds = testing::Effort("SPARSEAGG_SIM_SEEDS", 300);
  for (int seed = 1; seed <= seeds; ++seed) {
    ASSERT_EQ(RunSeed(static_cast<uint64_t>(seed), false, total), "")
        << "SPARSEAGG_SIM_SEED=" << seed << " runs it again and prints its steps";
  }
  std::cout << seeds << " seeds, " << total.steps << " steps: " << total.accepted << " updates, "
            << total.duplicates << " resends, " << total.refused << " refusals, " << total.published
            << " results, " << total.crashes << " crashes, " << total.disk_errors
            << " errors of the disk, " << total.devices_lost << " lost devices\n";
  // Each of these must happen, because a simulation without an event does not test it.
  EXPECT_GT(total.accepted, static_cast<uint64_t>(5 * seeds));
  EXPECT_GT(total.duplicates, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.published, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.crashes, static_cast<uint64_t>(2 * seeds));
  EXPECT_GT(total.disk_errors, static_cast<uint64_t>(seeds));
  EXPECT_GT(total.devices_lost, 0u);
}

}  // namespace
}  // namespace sparseagg::sim
