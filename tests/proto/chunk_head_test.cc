#include "proto/chunk_head.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {
namespace {

TEST(ChunkHead, AndTheDataAreTheMessage) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 40}) {
    for (const size_t bytes : {1, 127, 128, 16'383, 16'384, 4 << 20}) {
      const std::string data(bytes, 'd');
      v1::GetAggregateResponse message;
      message.mutable_chunk()->set_offset(offset);
      const std::string head =
          ChunkHead(v1::GetAggregateResponse::kChunkFieldNumber, message.chunk(),
                    v1::AggregateChunk::kDataFieldNumber, bytes);
      message.mutable_chunk()->set_data(data);
      EXPECT_TRUE(head + data == message.SerializeAsString()) << offset << ", " << bytes;
    }
  }
}

}  // namespace
}  // namespace sparseagg
