#include "client/connections.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

namespace sparseagg::client {
namespace {

using ::testing::AllOf;
using ::testing::Ne;

// Channels that nothing is called on, and so do not connect.
class ConnectionsTest : public ::testing::Test {
 protected:
  Connections::Connect Counted() {
    return [this] {
      ++made_;
      return grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
    };
  }

  int made_ = 0;
};

TEST_F(ConnectionsTest, UploadsOneAfterTheOtherShareTheFirst) {
  Connections connections(Counted(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(connections.ForUpload().get(), &connections.first());
  EXPECT_EQ(made_, 1);
}

TEST_F(ConnectionsTest, UploadsSideBySideHaveTheirOwnUpToTheMost) {
  Connections connections(Counted(), 3);
  const auto a = connections.ForUpload();
  auto b = connections.ForUpload();
  const auto c = connections.ForUpload();
  EXPECT_EQ(made_, 3);
  EXPECT_EQ(a.get(), &connections.first());
  EXPECT_THAT(b.get(), Ne(a.get()));
  EXPECT_THAT(c.get(), AllOf(Ne(a.get()), Ne(b.get())));

  Connections::Stub* const without_upload = b.get();
  b.reset();
  EXPECT_EQ(connections.ForUpload().get(), without_upload);
  EXPECT_EQ(made_, 3);
}

TEST_F(ConnectionsTest, TheFewestUploadsDecide) {
  Connections connections(Counted(), 2);
  const auto a = connections.ForUpload();
  const auto b = connections.ForUpload();
  const auto c = connections.ForUpload();
  const auto d = connections.ForUpload();
  EXPECT_NE(c.get(), d.get()) << "two each";
}

TEST_F(ConnectionsTest, ThereIsAlwaysOne) {
  Connections connections(Counted(), 0);
  const auto a = connections.ForUpload();
  const auto b = connections.ForUpload();
  EXPECT_EQ(a.get(), b.get());
  EXPECT_EQ(made_, 1);
}

}  // namespace
}  // namespace sparseagg::client
