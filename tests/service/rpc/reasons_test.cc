// docs/api.md promises a stable list of reasons. This holds the list and the sources together.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
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

// Every string of the server's sources that looks like a reason; environment variables look alike.
std::set<std::string> ReasonsInSources() {
  const std::regex pattern("\"([A-Z]+(_[A-Z0-9]+)+)\"");
  std::set<std::string> reasons;
  for (const char* folder : {"sparse", "cpu", "cuda", "service", "proto"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(SPARSEAGG_SOURCE_DIR) / folder)) {
      const std::string extension = entry.path().extension();
      if (extension == ".cc" || extension == ".h" || extension == ".cu" || extension == ".cuh") {
        AddMatches(ReadText(entry.path()), pattern, reasons);
      }
    }
  }
  std::erase_if(reasons, [](const std::string& word) {
    return word.starts_with("SPARSEAGG_") || word.starts_with("GRPC_");
  });
  return reasons;
}

std::set<std::string> ReasonsInTables() {
  std::set<std::string> reasons;
  AddMatches(ReadText(fs::path(SPARSEAGG_SOURCE_DIR) / "docs" / "api.md"),
             std::regex("\n\\| `([A-Z0-9_]+)` \\|"), reasons);
  return reasons;
}

TEST(ReasonsTest, EveryReasonOfTheSourcesIsInTheTableAndTheOtherWayRound) {
  const std::set<std::string> sources = ReasonsInSources();
  ASSERT_GT(sources.size(), 50u);
  const std::set<std::string> tables = ReasonsInTables();
  for (const std::string& reason : sources)
    EXPECT_TRUE(tables.contains(reason)) << reason << " is not in docs/api.md";
  for (const std::string& reason : tables)
    EXPECT_TRUE(sources.contains(reason)) << reason << " is in no source";
}

}  // namespace
}  // namespace sparseagg
