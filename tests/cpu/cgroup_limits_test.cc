#include "base/cgroup_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "cpu/cpu_backend.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// The value that version 1 has where there is no limit.
constexpr std::string_view kNoLimitV1 = "9223372036854771712\n";

// The files of a machine, in a temporary folder of the test.
class CgroupLimitsTest : public ::testing::Test {
 protected:
  CgroupLimitsTest() { std::filesystem::create_directories(paths_.root); }

  void Member(std::string_view lines) const { WriteTo(paths_.membership, lines); }
  void Write(const std::string& file, std::string_view content) const {
    WriteTo(paths_.root + "/" + file, content);
  }
  std::optional<uint64_t> Limit() const { return CgroupMemoryBytes(paths_); }
  std::optional<uint32_t> Cpus() const { return CgroupCpus(paths_); }

  const testing::TemporaryFolder folder_;
  const CgroupPaths paths_{folder_.path() + "/cgroup", folder_.path() + "/sys"};

 private:
  static void WriteTo(const std::filesystem::path& path, std::string_view content) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
};

TEST_F(CgroupLimitsTest, IsThatOfTheMountInAContainerWithANamespace) {
  Member("0::/\n");
  Write("memory.max", "8589934592\n");
  EXPECT_EQ(Limit(), 8192 * kMiB);
}

TEST_F(CgroupLimitsTest, TheLeastOfAllGroupsAroundTheProcessCounts) {
  Member("0::/kubepods.slice/pod7.slice/a.scope\n");
  Write("kubepods.slice/memory.max", "400000000\n");
  Write("kubepods.slice/pod7.slice/memory.max", "max\n");
  Write("kubepods.slice/pod7.slice/a.scope/memory.max", "300000000\n");
  EXPECT_EQ(Limit(), 300'000'000u);
  Write("kubepods.slice/pod7.slice/memory.max", "200000000\n");
  EXPECT_EQ(Limit(), 200'000'000u);
  Write("kubepods.slice/memory.max", "100000000\n");
  EXPECT_EQ(Limit(), 100'000'000u);
}

TEST_F(CgroupLimitsTest, OtherGroupsDoNotCount) {
  Member("0::/a/b\n");
  Write("a/memory.max", "max\n");
  Write("a/b/memory.max", "500000000\n");
  Write("a/b/child/memory.max", "1000\n");
  Write("a/sibling/memory.max", "1000\n");
  EXPECT_EQ(Limit(), 500'000'000u);
}

TEST_F(CgroupLimitsTest, MaxIsNone) {
  Member("0::/a\n");
  Write("a/memory.max", "max\n");
  EXPECT_EQ(Limit(), std::nullopt);
}

TEST_F(CgroupLimitsTest, ReadsVersion1) {
  Member("9:name=systemd:/\n4:cpu,memory:/docker/5f0c\n3:cpuset:/x\n");
  Write("memory/memory.limit_in_bytes", kNoLimitV1);
  Write("memory/docker/memory.limit_in_bytes", kNoLimitV1);
  Write("memory/docker/5f0c/memory.limit_in_bytes", "268435456\n");
  Write("memory/x/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(Limit(), 256 * kMiB);
}

// The group's path is the host's, and the mount shows only the container's own group.
TEST_F(CgroupLimitsTest, IsThatOfTheMountWhereTheGroupsPathIsTheHosts) {
  Member("4:memory:/docker/5f0c\n0::/system.slice/docker-5f0c.scope\n");
  Write("memory/memory.limit_in_bytes", "268435456\n");
  EXPECT_EQ(Limit(), 256 * kMiB);
  Write("memory.max", "134217728\n");
  EXPECT_EQ(Limit(), 128 * kMiB);
}

TEST_F(CgroupLimitsTest, APathOutOfTheNamespaceLeadsNowhere) {
  Member("0::/../../other\n");
  Write("memory.max", "700000000\n");
  Write("../memory.max", "1000\n");
  Write("other/memory.max", "1000\n");
  EXPECT_EQ(Limit(), 700'000'000u);
}

TEST_F(CgroupLimitsTest, AGroupsNameMayHoldColons) {
  Member("0::/a:b:c\n");
  Write("a:b:c/memory.max", "600000000\n");
  EXPECT_EQ(Limit(), 600'000'000u);
}

TEST_F(CgroupLimitsTest, ThereIsNoneWithoutFiles) {
  EXPECT_EQ(Limit(), std::nullopt);
  Member("0::/a\n4:memory:/b\n");
  EXPECT_EQ(Limit(), std::nullopt);
  std::filesystem::create_directories(paths_.root + "/memory.max");
  EXPECT_EQ(Limit(), std::nullopt) << "a folder of that name";
}

TEST_F(CgroupLimitsTest, GarbageSetsNoLimit) {
  Member("\n:\nmemory\n0:\n4:memory\n0::/a\n");
  Write("a/memory.max", "900000000\n");
  for (const std::string_view garbage :
       {"", "\n", "-1\n", "0\n", "8GiB\n", "1e9\n", "max 5\n", "99999999999999999999999999\n"}) {
    Write("memory.max", garbage);
    EXPECT_EQ(Limit(), 900'000'000u) << garbage;
  }
}

TEST_F(CgroupLimitsTest, NoGroupGivesMoreThanTheMachineHas) {
  const uint64_t physical = AvailableMemoryBytes(paths_);
  EXPECT_GT(physical, 16 * kMiB);
  Member("4:memory:/\n");
  Write("memory/memory.limit_in_bytes", kNoLimitV1);
  EXPECT_EQ(AvailableMemoryBytes(paths_), physical);
  Write("memory/memory.limit_in_bytes", "16777216\n");
  EXPECT_EQ(AvailableMemoryBytes(paths_), 16 * kMiB);
}

TEST_F(CgroupLimitsTest, CpusAreThoseOfTheQuotaRoundedUp) {
  Member("0::/a\n");
  Write("a/cpu.max", "200000 100000\n");
  EXPECT_EQ(Cpus(), 2u);
  Write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Cpus(), 2u);
  Write("a/cpu.max", "1000 100000\n");
  EXPECT_EQ(Cpus(), 1u);
  Write("a/cpu.max", "18446744073709551615 1\n");
  EXPECT_EQ(Cpus(), 4294967295u);
}

TEST_F(CgroupLimitsTest, TheLeastCpuQuotaOfAllGroupsAroundTheProcessCounts) {
  Member("0::/kubepods.slice/pod7.slice/a.scope\n");
  Write("cpu.max", "800000 100000\n");
  Write("kubepods.slice/cpu.max", "max 100000\n");
  Write("kubepods.slice/pod7.slice/cpu.max", "150000 50000\n");
  Write("kubepods.slice/pod7.slice/a.scope/cpu.max", "400000 100000\n");
  Write("kubepods.slice/pod7.slice/a.scope/child/cpu.max", "100000 100000\n");
  EXPECT_EQ(Cpus(), 3u);
}

TEST_F(CgroupLimitsTest, ReadsCpuQuotasOfVersion1) {
  Member("5:cpuset:/x\n4:cpu,cpuacct:/docker/5f0c\n");
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cpus(), std::nullopt);
  Write("cpu/docker/5f0c/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(Cpus(), std::nullopt) << "without a period";
  Write("cpu/docker/5f0c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cpus(), 3u);
  Write("cpu/x/cpu.cfs_quota_us", "1000\n");
  Write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cpus(), 3u) << "of another group";
}

TEST_F(CgroupLimitsTest, GarbageSetsNoCpuQuota) {
  Member("0::/a\n");
  for (const std::string_view garbage : {"", "\n", "max 100000\n", "0 100000\n", "100000 0\n",
                                         "100000\n", "-1 100000\n", "1 2 3\n", "a b\n"}) {
    Write("a/cpu.max", garbage);
    EXPECT_EQ(Cpus(), std::nullopt) << garbage;
  }
}

TEST_F(CgroupLimitsTest, NoGroupGivesMoreCpusThanTheMachineHas) {
  const uint32_t usable = AvailableCpus(paths_);
  EXPECT_GE(usable, 1u);
  Member("0::/\n");
  Write("cpu.max", "100000000 1000\n");
  EXPECT_EQ(AvailableCpus(paths_), usable);
  Write("cpu.max", "50000 100000\n");
  EXPECT_EQ(AvailableCpus(paths_), 1u);
}

TEST(CpuBackendThreadsTest, AreAsManyAsTheProcessMayUseCpus) {
  EXPECT_EQ((*MakeCpuBackend({}))->info().threads, AvailableCpus());
  EXPECT_EQ((*MakeCpuBackend({.threads = 3}))->info().threads, 3u);
}

TEST(CpuBackendMemoryTest, IsHalfOfWhatTheProcessMayTake) {
  EXPECT_EQ((*MakeCpuBackend({.threads = 1}))->info().memory_bytes, AvailableMemoryBytes() / 2);
  EXPECT_EQ((*MakeCpuBackend({.threads = 1, .memory_bytes = 7}))->info().memory_bytes, 7u);
}

}  // namespace
}  // namespace sparseagg
