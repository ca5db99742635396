// An update that is decoded into memory of the back end and validated while its byte string
// arrives: no byte is copied in between, and entries are validated while they are in the cache.
#ifndef SPARSEAGG_SERVICE_ENGINE_INGEST_ARRIVING_UPDATE_H_
#define SPARSEAGG_SERVICE_ENGINE_INGEST_ARRIVING_UPDATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/ingest/update.h"
#include "sparse/validate.h"

namespace sparseagg {

// Thread-compatible.
class ArrivingUpdate {
 public:
  // Stages memory for all tensors. `layout` is the result of MakeUpdateLayout() for `headers`,
  // which must outlive this object.
  static absl::StatusOr<std::unique_ptr<ArrivingUpdate>> Make(
      std::shared_ptr<const TensorReducers> reducers, std::span<const EncodedHeader> headers,
      const UpdateLayout& layout, float weight);

  // Returns the most bytes that decoders hold besides the staged entries.
  static uint64_t KeptBytes(std::span<const EncodedHeader> headers);

  // Decodes the next bytes. Take() returns the first error; bytes after it are only counted.
  // REQUIRES: no more bytes in all than the headers state.
  void Append(std::string_view bytes);

  // Returns the checksums of all arrays, by position in the update. REQUIRES: all bytes have
  // arrived.
  std::span<const TensorSums> sums() const { return sums_; }
  // Takes the staged entries, or returns the first error in them. A caller that does not use the
  // entries calls PutBack(). REQUIRES: all bytes have arrived.
  absl::StatusOr<StagedTensors> Take();
  void PutBack(StagedTensors staged) { staged_ = std::move(staged); }

 private:
  struct Tensor {
    size_t position;  // position in the specification
    std::unique_ptr<TensorDecoder> decoder;
    std::unique_ptr<UpdateValidator> validator;
  };
  // One array of the byte string.
  struct Section {
    size_t tensor;  // position in the update
    bool is_values;
    uint64_t bytes_left;
  };

  explicit ArrivingUpdate(std::shared_ptr<const TensorReducers> reducers)
      : reducers_(std::move(reducers)) {}
  absl::Status AppendTo(const Section& section, std::string_view bytes);

  const std::shared_ptr<const TensorReducers> reducers_;
  StagedTensors staged_;         // in the order of the specification
  std::vector<Tensor> tensors_;  // by position in the update
  std::vector<TensorSums> sums_;
  ArraySummer sum_;  // of the section that is being received
  std::vector<Section> sections_;
  size_t section_ = 0;
  absl::Status first_error_;
  bool finished_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_INGEST_ARRIVING_UPDATE_H_
