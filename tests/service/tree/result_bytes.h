// The bytes of results, as clients get them.
#ifndef SPARSEAGG_TESTS_SERVICE_TREE_RESULT_BYTES_H_
#define SPARSEAGG_TESTS_SERVICE_TREE_RESULT_BYTES_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "service/rpc/result/divided_answer.h"
#include "service/rpc/result/get_aggregate.h"
#include "service/rpc/result/result_writer.h"

namespace sparseagg::testing {

inline absl::StatusOr<v1::ReadResultResponse> ParsePiece(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return absl::InternalError("no slices");
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::ReadResultResponse piece;
  if (!piece.ParseFromString(text)) return absl::InternalError("no response");
  return piece;
}

// ReadResult of the round `name`, without a connection.
inline absl::StatusOr<v1::ReadResultResponse> ReadPiece(Engine& engine, const std::string& name,
                                                        v1::ReadResultRequest request) {
  request.mutable_result()->set_name(name);
  grpc::ByteBuffer message;
  SPARSEAGG_RETURN_IF_ERROR(ReadResult(engine, request, message));
  return ParsePiece(message);
}

// The whole answer of GetAggregate, read piece by piece.
inline absl::StatusOr<std::string> BytesOf(const std::shared_ptr<const PublishedResult>& result) {
  const v1::GetAggregateRequest all;
  std::string bytes;
  if (result->parts == nullptr) {
    for (bool more = true; more;) {
      SPARSEAGG_ASSIGN_OR_RETURN(const auto writer, ResultWriter::Make(result, all, 0));
      grpc::ByteBuffer message;
      SPARSEAGG_RETURN_IF_ERROR(writer->ReadAt(bytes.size(), 0, message));
      SPARSEAGG_ASSIGN_OR_RETURN(const v1::ReadResultResponse piece, ParsePiece(message));
      bytes += piece.chunk().data();
      more = bytes.size() < piece.total_bytes();
    }
    return bytes;
  }
  absl::Status failed;
  DividedAnswer::Open(result, all, 0, [&](auto answer) {
    failed = answer.status();
    for (uint64_t at = 0; failed.ok() && at < (*answer)->bytes();) {
      const size_t n = std::min<uint64_t>(100'001, (*answer)->bytes() - at);
      (*answer)->ReadAt(at, n, [&](auto piece) {
        failed = piece.status();
        if (failed.ok()) bytes += *piece;
      });
      at += n;
    }
  });
  if (!failed.ok()) return failed;
  return bytes;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_TREE_RESULT_BYTES_H_
