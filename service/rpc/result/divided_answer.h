// The answer of GetAggregate about a divided result: one byte string, each piece of which is read
// from the owners when it is needed, so that the root never holds more than the pieces in transit.
// The tensors are encoded as coo.raw, whatever the request says.
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_DIVIDED_ANSWER_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_DIVIDED_ANSWER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/types.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The error of a part that is not what its owner has said before.
absl::Status InconsistentPart(const ResultPart& part, std::string_view what);

// Immutable, and thread-safe.
class DividedAnswer : public std::enable_shared_from_this<DividedAnswer> {
 public:
  using Opened = std::function<void(absl::StatusOr<std::shared_ptr<const DividedAnswer>>)>;
  using Read = std::function<void(absl::StatusOr<std::string>)>;

  // Asks each owner for the header of its part, and then calls `opened`, once, from any thread.
  // Errors: those of ResultWriter::Make() and of PartReader.
  static void Open(std::shared_ptr<const PublishedResult> result,
                   const v1::GetAggregateRequest& request, uint64_t dense_bytes_max,
                   const Opened& opened);

  const v1::AggregateHeader& header() const { return header_; }
  uint64_t bytes() const { return bytes_; }
  // Calls `read`, once, from any thread, with the bytes [offset, offset + n). REQUIRES: they are
  // within bytes(), and n is at most kChunkBytesMax.
  void ReadAt(uint64_t offset, size_t n, const Read& read) const;

 private:
  // Adjacent bytes of the answer that are adjacent at their owner.
  struct Segment {
    uint64_t offset = 0;  // in the answer
    size_t part = 0;
    uint64_t part_offset = 0;  // in the answer of the owner
    uint64_t bytes = 0;
  };
  struct Opening;
  struct Reading;

  void SplitSelections(const v1::GetAggregateRequest& request);
  absl::Status Assemble(const std::vector<v1::ReadResultResponse>& answers);
  void AddTensor(int position, const std::vector<v1::ReadResultResponse>& answers,
                 std::vector<uint64_t>& part_offsets);
  void AddDense(size_t tensor, const std::vector<uint64_t>& part_offsets);
  void AddSegment(size_t part, uint64_t part_offset, uint64_t bytes);
  size_t PartOf(size_t tensor, uint64_t row) const;

  std::shared_ptr<const PublishedResult> result_;
  bool is_dense_ = false;
  std::vector<v1::GetAggregateRequest> requests_;  // [parts]
  // By tensor of the specification, with a selection: the part of each selected row.
  std::map<size_t, std::vector<uint32_t>> part_of_row_;
  v1::AggregateHeader header_;
  std::vector<Segment> segments_;
  uint64_t bytes_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_DIVIDED_ANSWER_H_
