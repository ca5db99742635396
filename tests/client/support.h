// Helpers for the tests of the client: temporary folders, files, tensors.
#ifndef SPARSEAGG_TESTS_CLIENT_SUPPORT_H_
#define SPARSEAGG_TESTS_CLIENT_SUPPORT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "client/client.h"
#include "client/tensor.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {

// A fresh folder, removed at the end of the test.
class FolderTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string WriteFile(const std::string& name, std::string_view content) const {
    std::FILE* file = std::fopen(Path(name).c_str(), "wb");
    EXPECT_EQ(std::fwrite(content.data(), 1, content.size(), file), content.size());
    std::fclose(file);
    return Path(name);
  }
  std::string ReadFile(const std::string& path) const {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    std::string content(std::filesystem::file_size(path), '\0');
    EXPECT_EQ(std::fread(content.data(), 1, content.size(), file), content.size());
    std::fclose(file);
    return content;
  }

 private:
  const TemporaryFolder temporary_;

 protected:
  const std::filesystem::path folder_ = temporary_.path();
};

template <class T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> ValuesOf(const client::Tensor& tensor) {
  std::vector<T> values(tensor.values.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.values.data(), tensor.values.size());
  return values;
}

template <class T>
client::Tensor MakeTensor(const TensorSpec& spec, std::vector<uint64_t> rows,
                          const std::vector<T>& values) {
  client::Tensor tensor = client::MakeEmptyTensor(spec).value();
  tensor.indices = std::move(rows);
  tensor.values = BytesOf(values);
  return tensor;
}

inline bool SameTensor(const client::Tensor& a, const client::Tensor& b) {
  return a.name == b.name && a.dense_shape == b.dense_shape && a.sparse_dim == b.sparse_dim &&
         a.layout == b.layout && a.indices == b.indices && a.values == b.values;
}

// A status with this reason, whose message is one line and holds `part`.
inline ::testing::AssertionResult HasError(const absl::Status& status, std::string_view reason,
                                           std::string_view part) {
  const std::string message(status.message());
  if (ErrorReason(status) == reason && message.find(part) != std::string::npos &&
      message.find('\n') == std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << status << " (" << ErrorReason(status) << "), expected "
                                       << reason << " with \"" << part << "\"";
}

// Options of a client with short limits.
inline client::ClientOptions Impatient() {
  client::ClientOptions options;
  options.retry = {3, 1, 1};
  return options;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_SUPPORT_H_
