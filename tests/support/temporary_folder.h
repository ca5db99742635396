// An empty folder for one test, removed with this object.
#ifndef SPARSEAGG_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define SPARSEAGG_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace sparseagg::testing {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "sparseagg_test_XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? std::string() : name;
    EXPECT_FALSE(path_.empty()) << "no folder for the test in " << name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
