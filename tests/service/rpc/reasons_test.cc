// docs/api.md promises a stable list of reasons. This test compares the list with the sources.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>

namespace sparseagg {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void AddMatches(const std::string& text, const std::regex& pattern, std::set<std::string>& found) {
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    found.insert((*it)[1]);
}

constexpr const char* kServer[] = {"sparse", "cpu", "cuda", "service", "proto"};
constexpr const char* kClients[] = {"client", "python/sparseagg"};

// Every string of sources that looks like a reason; environment variables look alike.
std::set<std::string> ReasonsIn(std::span<const char* const> folders) {
  const std::regex pattern("\"([A-Z]+(_[A-Z0-9]+)*)\"");
  const std::set<std::string> extensions = {".cc", ".h", ".cu", ".cuh", ".py"};
  std::set<std::string> reasons;
  for (const char* folder : folders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(SPARSEAGG_SOURCE_DIR) / folder)) {
      if (extensions.contains(entry.path().extension())) {
        AddMatches(ReadText(entry.path()), pattern, reasons);
      }
    }
  }
  std::erase_if(reasons, [](const std::string& word) {
    return word.starts_with("SPARSEAGG_") || word.starts_with("GRPC_") || word.starts_with("CUDA_");
  });
  return reasons;
}

std::set<std::string> ReasonsInTables() {
  std::set<std::string> reasons;
  AddMatches(ReadText(fs::path(SPARSEAGG_SOURCE_DIR) / "docs" / "api.md"),
             std::regex("\n\\| `([A-Z0-9_]+)` \\|"), reasons);
  return reasons;
}

TEST(ReasonsTest, EveryReasonOfTheServerIsInTheTables) {
  const std::set<std::string> tables = ReasonsInTables();
  const std::set<std::string> reasons = ReasonsIn(kServer);
  ASSERT_GT(reasons.size(), 50u);
  for (const std::string& reason : reasons) {
    if (reason.find('_') == std::string::npos) continue;  // a state, or a word of another protocol
    EXPECT_TRUE(tables.contains(reason)) << reason << " is not in docs/api.md";
  }
}

TEST(ReasonsTest, EveryReasonOfTheTablesIsInASource) {
  std::set<std::string> reasons = ReasonsIn(kServer);
  reasons.merge(ReasonsIn(kClients));
  for (const std::string& reason : ReasonsInTables()) {
    EXPECT_TRUE(reasons.contains(reason)) << reason << " is in no source";
  }
}

}  // namespace
}  // namespace sparseagg
