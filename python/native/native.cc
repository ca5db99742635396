#include "python/native/native.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cgroup_limits.h"
#include "base/float_environment.h"
#include "base/status.h"
#include "cpu/cpu_backend.h"
#include "cpu/parallel.h"
#include "python/native/packing.h"
#include "service/engine/result/result_source.h"
#include "service/engine/round/local_reductions.h"
#include "sparse/validate.h"

namespace sparseagg::native {

struct Core {
  explicit Core(std::unique_ptr<Backend> its_backend)
      : backend(std::move(its_backend)), reductions(*backend), parallel(backend->info().threads) {}
  const std::unique_ptr<Backend> backend;
  LocalReductions reductions;
  Parallel parallel;
};

struct Reduction {
  Core* core;
  std::unique_ptr<StatelessReduction> reduction;
};

struct Snapshot {
  RoundPartial partial;
  std::string bytes;  // of the last sparseagg_native_snapshot_bytes()
};

struct Result {
  std::shared_ptr<const PublishedResult> result;
};

namespace {

// An error with the strings that it points to.
struct OwnedError : Error {
  std::string reason_text;
  std::string message_text;
  std::string metadata_text;
};

std::string ToString(Bytes bytes) {
  return bytes.size == 0 ? "" : std::string(bytes.data, bytes.size);
}

Bytes ToBytes(const std::string& text) { return {text.data(), text.size()}; }

Error* MakeError(const absl::Status& status) {
  if (status.ok()) return nullptr;
  auto error = std::make_unique<OwnedError>();
  error->code = static_cast<int32_t>(status.code());
  error->retry_after_ms = RetryAfterMs(status);
  error->reason_text = ErrorReason(status);
  error->message_text = std::string(status.message());
  for (const auto& [key, value] : ErrorMetadata(status)) {
    error->metadata_text.append(key).append(1, '\0').append(value).append(1, '\0');
  }
  error->reason = ToBytes(error->reason_text);
  error->message = ToBytes(error->message_text);
  error->metadata = ToBytes(error->metadata_text);
  return error.release();
}

// Runs f(), which returns a status. No exception leaves the library, and no setting for floating
// point of the caller's thread, which other packages of its process may have changed, enters it.
template <class F>
Error* Guarded(const F& f) {
  const DefaultFloatEnvironment usual;
  try {
    return MakeError(f());
  } catch (const std::bad_alloc&) {
    return MakeError(sparseagg::MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                                          "no memory for the reduction"));
  }
}

TensorSpec ToSpec(const Spec& spec) {
  return {.name = ToString(spec.name),
          .value_type = static_cast<ValueType>(spec.value_type),
          .dense_shape = {spec.dense_shape, spec.dense_shape + spec.rank},
          .sparse_dim = spec.sparse_dim,
          .op = ToString(spec.op),
          .integer_overflow =
              spec.is_modular != 0 ? IntegerOverflow::kModular : IntegerOverflow::kChecked,
          .plan = ToString(spec.plan)};
}

EncodedHeader ToHeader(const Tensor& tensor) {
  return {.name = ToString(tensor.name),
          .encoding = ToString(tensor.encoding),
          .values_encoding = ToString(tensor.values_encoding),
          .value_type = static_cast<ValueType>(tensor.value_type),
          .dense_shape = {tensor.dense_shape, tensor.dense_shape + tensor.rank},
          .sparse_dim = tensor.sparse_dim,
          .index_type = tensor.has_i32_indices != 0 ? IndexType::kI32 : IndexType::kI64,
          .nnz = tensor.nnz,
          .indices_bytes = tensor.indices.size,
          .values_bytes = tensor.values.size};
}

// Updates are added by several threads when they have this number of bytes on average. Below, the
// threads would wait for each other more than they save.
constexpr uint64_t kParallelBytesMin = 64 << 10;

uint64_t BytesOf(std::span<const Update> updates) {
  uint64_t bytes = 0;
  for (const Update& update : updates) {
    for (const Tensor& tensor : std::span(update.tensors, update.count)) {
      bytes += tensor.indices.size + tensor.values.size;
    }
  }
  return bytes;
}

absl::Status Add(StatelessReduction& reduction, const Update& update) {
  const std::span<const Tensor> tensors(update.tensors, update.count);
  std::vector<std::string_view> arrays;  // two for each tensor, to which the chains point
  arrays.reserve(2 * tensors.size());
  std::vector<EncodedTensor> encoded;
  encoded.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    const std::string_view* const own = arrays.data() + arrays.size();
    arrays.emplace_back(tensor.indices.data, tensor.indices.size);
    arrays.emplace_back(tensor.values.data, tensor.values.size);
    encoded.push_back({ToHeader(tensor), ByteChain(own, 1), ByteChain(own + 1, 1)});
  }
  const std::string update_id = ToString(update.id);
  // -0 becomes 0, as on the wire.
  const UpdateHeader header{.update_id = update_id, .weight = update.weight + 0.0f};
  return AttributeToUpdate(reduction.Add(header, encoded), update_id);
}

absl::Status AddAll(Reduction& reduction, std::span<const Update> updates) {
  std::vector<absl::Status> statuses(updates.size());
  const auto add = [&](size_t i) { statuses[i] = Add(*reduction.reduction, updates[i]); };
  if (BytesOf(updates) >= kParallelBytesMin * updates.size()) {
    reduction.core->parallel.For(updates.size(), add);
  } else {
    for (size_t i = 0; i < updates.size(); ++i) add(i);
  }
  const auto refused = std::ranges::find_if_not(statuses, &absl::Status::ok);
  return refused == statuses.end() ? absl::OkStatus() : *refused;
}

void ReadAll(const ByteSource& source, void* out) {
  source.Read(0, source.bytes(), static_cast<char*>(out));
}

}  // namespace

const char* sparseagg_native_version() { return SPARSEAGG_VERSION; }

void sparseagg_native_error_free(Error* error) { delete static_cast<OwnedError*>(error); }

Error* sparseagg_native_core_new(uint32_t threads, Core** core) {
  return Guarded([&]() -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(auto backend, MakeCpuBackend({.threads = threads}));
    *core = new Core(std::move(backend));
    return absl::OkStatus();
  });
}

Error* sparseagg_native_reduction_new(Core* core, const Spec* tensors, uint64_t count,
                                      uint32_t at_once, Reduction** reduction) {
  return Guarded([&]() -> absl::Status {
    std::vector<TensorSpec> specs;
    specs.reserve(count);
    for (uint64_t i = 0; i < count; ++i) specs.push_back(ToSpec(tensors[i]));
    const auto folding =
        at_once != 0 ? TensorReducers::Folding::kAtOnce : TensorReducers::Folding::kInBatches;
    SPARSEAGG_ASSIGN_OR_RETURN(auto made, core->reductions.New(specs, folding));
    *reduction = new Reduction{core, std::move(made)};
    return absl::OkStatus();
  });
}

void sparseagg_native_reduction_free(Reduction* reduction) { delete reduction; }

Error* sparseagg_native_reduction_add(Reduction* reduction, const Update* updates, uint64_t count) {
  return Guarded([&] { return AddAll(*reduction, {updates, count}); });
}

Error* sparseagg_native_reduction_snapshot(Reduction* reduction, Snapshot** snapshot) {
  return Guarded([&]() -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(auto partial, reduction->reduction->Snapshot());
    *snapshot = new Snapshot{std::move(partial), {}};
    return absl::OkStatus();
  });
}

Error* sparseagg_native_snapshot_write(Snapshot* snapshot, Bytes* bytes) {
  return Guarded([&]() -> absl::Status {
    snapshot->bytes = WritePartial(snapshot->partial);
    *bytes = ToBytes(snapshot->bytes);
    return absl::OkStatus();
  });
}

Error* sparseagg_native_snapshot_read(Bytes bytes, Snapshot** snapshot) {
  return Guarded([&]() -> absl::Status {
    // A few bytes may stand for many rows of zeros.
    const uint64_t most = AvailableMemoryBytes() / 2;
    const auto reserve = [&](uint64_t wanted) {
      return wanted <= most
                 ? absl::OkStatus()
                 : sparseagg::MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                                        "no memory for the partial aggregate");
    };
    SPARSEAGG_ASSIGN_OR_RETURN(
        auto partial, ReadPartial({bytes.data, bytes.size}, {.specs = {}, .reserve = reserve}));
    *snapshot = new Snapshot{std::move(partial), {}};
    return absl::OkStatus();
  });
}

void sparseagg_native_snapshot_free(Snapshot* snapshot) { delete snapshot; }

Error* sparseagg_native_reduction_merge(Reduction* reduction, const Snapshot* snapshot) {
  return Guarded([&] { return reduction->reduction->Merge(snapshot->partial); });
}

Error* sparseagg_native_reduction_report(Reduction* reduction, Result** result) {
  return Guarded([&]() -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(auto report, reduction->reduction->Report());
    *result = new Result{std::move(report)};
    return absl::OkStatus();
  });
}

void sparseagg_native_result_manifest(const Result* result, Manifest* manifest) {
  const DefaultFloatEnvironment usual;
  const sparseagg::Manifest& from = result->result->manifest;
  const std::chrono::duration<double> since_1970 = from.publish_time.time_since_epoch();
  *manifest = {from.contributors, from.total_weight, from.infinite_values, since_1970.count()};
}

void sparseagg_native_result_tensor(const Result* result, uint64_t i, ResultTensor* tensor) {
  const TensorSpec& spec = result->result->result_specs[i];
  const SparseTensor& from = result->result->tensors[i];
  const bool has_indices = spec.sparse_dim == 1 && !from.indices.kept().empty();
  *tensor = {.dense_shape = spec.dense_shape.data(),
             .rank = static_cast<uint32_t>(spec.dense_shape.size()),
             .sparse_dim = spec.sparse_dim,
             .value_type = static_cast<uint32_t>(from.layout.value_type),
             .nnz = from.nnz(),
             .indices = has_indices ? from.indices.kept().data() : nullptr,
             .values = from.values.data(),
             .values_bytes = from.values.size()};
}

void sparseagg_native_result_indices(const Result* result, uint64_t i, int64_t* indices) {
  const DefaultFloatEnvironment usual;
  const std::vector<int64_t>& shape = result->result->result_specs[i].dense_shape;
  const uint32_t sparse_dim = result->result->result_specs[i].sparse_dim;
  ReadAll(*MakeIndices(result->result->tensors[i], {shape.begin(), shape.begin() + sparse_dim}),
          indices);
}

void sparseagg_native_result_dense(const Result* result, uint64_t i, void* values) {
  const DefaultFloatEnvironment usual;
  ReadAll(*MakeDenseValues(result->result->tensors[i]), values);
}

void sparseagg_native_result_free(Result* result) { delete result; }

Error* sparseagg_native_packing_new(const Indices* indices, uint64_t bytes_max, Packing** packing) {
  return Guarded([&]() -> absl::Status {
    const IndexArray array = {.data = indices->data,
                              .dense_shape = indices->dense_shape,
                              .nnz = indices->nnz,
                              .sparse_dim = indices->sparse_dim,
                              .is_i32 = indices->is_i32 != 0};
    *packing = Packing::Make(array, bytes_max).release();
    return absl::OkStatus();
  });
}

uint64_t sparseagg_native_packing_bytes(const Packing* packing) { return packing->packed_bytes(); }

uint32_t sparseagg_native_packing_is_in_order(const Packing* packing) {
  return packing->is_in_order() ? 1 : 0;
}

void sparseagg_native_packing_take(Packing* packing, char* packed) { packing->TakePacked(packed); }

void sparseagg_native_packing_values(Packing* packing, const char* values, uint64_t row_bytes,
                                     uint64_t begin, uint64_t end, char* out) {
  packing->CopyValues(values, row_bytes, begin, end, out);
}

void sparseagg_native_packing_free(Packing* packing) { delete packing; }

}  // namespace sparseagg::native
