// Makes archives of arrays, for the tests of the readers.
#ifndef SPARSEAGG_TESTS_CLIENT_IO_ARCHIVE_H_
#define SPARSEAGG_TESTS_CLIENT_IO_ARCHIVE_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/io/npy.h"
#include "client/io/tensor_file.h"
#include "client/io/zip_archive.h"
#include "tests/client/support.h"

namespace sparseagg::testing {

class ArchiveTest : public FolderTest {
 protected:
  template <class T>
  static client::ZipMember Array(const std::string& name, std::string_view descr,
                                 std::vector<int64_t> shape, const std::vector<T>& elements) {
    const std::vector<std::byte> bytes = BytesOf(elements);
    return {name + ".npy",
            client::NpyHeader(descr, shape) +
                std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            ""};
  }
  static client::ZipMember Text(const std::string& name, const std::string& text) {
    return Array<char>(name, "|S" + std::to_string(text.size()), {}, {text.begin(), text.end()});
  }
  std::string Archive(const std::vector<client::ZipMember>& members) {
    EXPECT_TRUE(client::WriteZip(Path("in.npz"), members).ok());
    return Path("in.npz");
  }
  absl::Status ReadError(const std::vector<client::ZipMember>& members) {
    return client::ReadTensors(Archive(members)).status();
  }
  client::Tensor ReadOne(const std::vector<client::ZipMember>& members) {
    std::vector<client::Tensor> tensors = client::ReadTensors(Archive(members)).value();
    EXPECT_EQ(tensors.size(), 1u);
    return tensors.at(0);
  }
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CLIENT_IO_ARCHIVE_H_
