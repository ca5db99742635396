// The messages of a load, serialised before the clock starts, so that a sender costs no more than
// gRPC itself. A frame is one message of StreamUpdates.
#ifndef SPARSEAGG_BENCH_INGEST_FRAMES_H_
#define SPARSEAGG_BENCH_INGEST_FRAMES_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sparse/encoding.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg::bench {

// One tensor of an update, encoded.
struct Payload {
  EncodedHeader header;
  std::string indices;
  std::string values;

  uint64_t bytes() const { return indices.size() + values.size(); }
};

// Rows of f32 values of a tensor of `rows` rows, as they are: coo.raw with i64 indices.
Payload RawPayload(const std::vector<int64_t>& indices, const std::vector<float>& values,
                   int64_t rows);

// How updates are sent: in chunks of `chunk_bytes`, whose data they share, or whole if that is 0,
// with `batch_updates` of them in a frame.
struct Framing {
  size_t chunk_bytes = 0;
  int64_t batch_updates = 1;
};

// The frames of `updates` updates into `round`, of a contributor each, whose numbers begin with
// `first`; payloads take turns.
std::vector<grpc::ByteBuffer> MakeFrames(const std::vector<Payload>& payloads, int64_t updates,
                                         const std::string& round, Framing framing,
                                         int64_t first = 0);

// A whole update as a unary call takes it, of the contributor with that number.
v1::SubmitUpdateRequest MakeUnary(const Payload& payload, const std::string& round,
                                  int64_t contributor);

// Writes them all to one stream. Seconds from the first byte to the end of the stream, which comes
// after the last answer.
double SendFrames(grpc::Channel& channel, const std::vector<grpc::ByteBuffer>& frames);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_INGEST_FRAMES_H_
