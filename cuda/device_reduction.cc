#include "cuda/device_reduction.h"

#include <algorithm>
#include <iterator>

#include "base/status.h"
#include "cuda/kernels/finalize.h"
#include "cuda/kernels/tiles/merge_runs.h"
#include "cuda/memory/row_split.h"
#include "cuda/side_rows.h"
#include "cuda/window.h"

namespace sparseagg::gpu {
namespace {

// Entries of a batch are numbered in 32 bits, and kernels step beyond the last one.
constexpr uint64_t kBatchEntriesMax = uint64_t{1} << 31;

}  // namespace

DeviceReduction::DeviceReduction(ReduceSpec spec, std::string plan, Context& context,
                                 std::shared_ptr<SharedWindow> window)
    : spec_(std::move(spec)),
      plan_name_(std::move(plan)),
      context_(context),
      window_(std::move(window)),
      rule_(RuleOf(spec_)) {}

void DeviceReduction::MakePlan(int32_t lsb) {
  rule_.lsb = window_ == nullptr ? lsb : window_->Choose(lsb);
  plan_ = MakeDeviceReducer(plan_name_, rule_, spec_.layout.num_rows);
}

void DeviceReduction::Fold(Batch& batch) {
  if (batch.updates().empty()) return;
  if (plan_ == nullptr) MakePlan(ChooseLsb(rule_, batch.updates()));
  if (batch.nnz() > kBatchEntriesMax) return FoldInHalves(batch);
  BatchView view;
  SideList list;
  try {
    view = batch.View(context_.queue);
    list = StartSide(view);
    plan_->Fold(context_.queue, view);
  } catch (const CudaError& error) {
    if (!error.out_of_memory()) throw;
    list = {};
    context_.queue.Synchronize();  // kernels may still read the batch
    if (plan_->bytes() == 0) return FoldInHalves(batch);
    if (!plan_->Compact(context_.queue)) Spill();
    return Fold(batch);
  }
  // The state has the batch: nothing from here on is done again.
  Settle();  // the batch is about to go
  std::vector<SideEntry> side;
  AppendRowSide(rule_, batch.updates(), side);
  TakeSide(view, list, side);
  AddSide(std::move(side));
  addends_ += view.nnz;
  batch.Take();
}

void DeviceReduction::Settle() {
  Queue& queue = context_.queue;
  const uint64_t* rows = plan_->number();
  if (rows != nullptr) context_.rows.Fetch(queue, rows);
  queue.Synchronize();
  if (rows != nullptr) plan_->SetCount(queue, context_.rows.Get());
}

void DeviceReduction::FoldInHalves(Batch& batch) {
  std::vector<PendingUpdate> updates = batch.Take();
  if (updates.size() == 1) updates = SplitByRow(std::move(updates[0]));
  const size_t middle = updates.size() / 2;
  Batch first(context_.uploads, context_.staging);
  Batch second(context_.uploads, context_.staging);
  for (size_t u = 0; u < updates.size(); ++u) {
    (u < middle ? first : second).Add(std::move(updates[u]));
  }
  Fold(first);
  Fold(second);
}

SideList DeviceReduction::StartSide(const BatchView& batch) {
  if (!rule_.has_side() || rule_.values != ValueSlots::kExactSum) return {};
  SideList list = ListSide(context_.queue, batch, rule_);
  context_.side.Fetch(context_.queue, list.count.data());
  return list;
}

void DeviceReduction::TakeSide(const BatchView& batch, const SideList& list,
                               std::vector<SideEntry>& side) {
  const uint64_t capacity = list.entries.size();
  if (capacity == 0) return;
  Queue& queue = context_.queue;
  const auto append = [&](uint64_t found) {
    const size_t before = side.size();
    side.resize(before + found);
    context_.downloads.Copy(queue, list.entries.data(), side.data() + before, found);
  };
  const uint64_t found = context_.side.Get();
  if (found == 0) return;
  if (found <= capacity) return append(found);
  // Repeats this for `capacity` values at a time. No more memory is taken, because the state could
  // not be restored.
  const uint64_t values = batch.nnz * batch.width;
  for (uint64_t begin = 0; begin < values; begin += capacity) {
    ExtractSide(queue, batch, rule_, begin, std::min(begin + capacity, values), list);
    append(queue.Read(list.count.data()));
  }
}

void DeviceReduction::AddSide(std::vector<SideEntry> side) {
  if (side.empty()) return;
  side_.insert(side_.end(), side.begin(), side.end());
  SortSide(side_);
  CompactSide(side_);
}

void DeviceReduction::Spill() {
  plan_->ForEachRun(context_.queue, [&](const SlotRun& run) { spilled_.push_back(Fetch(run)); });
  plan_->Clear();
}

DeviceReduction::HostRun DeviceReduction::Fetch(const SlotRun& run) {
  HostRun fetched;
  fetched.rows.resize(run.size);
  fetched.slots.resize(run.size * rule_.slots());
  context_.downloads.Copy(context_.queue, run.rows.data(), fetched.rows.data(), run.size);
  context_.downloads.Copy(context_.queue, run.slots.data(), fetched.slots.data(),
                          fetched.slots.size());
  return fetched;
}

void DeviceReduction::Join(Partial partial) {
  if (plan_ == nullptr) MakePlan(rule_.has_side() ? ChooseLsbOf(partial) : 0);
  addends_ += partial.addends;
  if (rule_.has_side()) {
    Rebase(partial, rule_.lsb);
    AddSide(std::move(partial.side));
  } else {
    TakeSideIntoSlots(partial);
  }
  if (partial.rows.empty()) return;
  Queue& queue = context_.queue;
  try {
    SlotRun run{{queue, partial.rows.size()}, {queue, partial.slots.size()}, partial.rows.size()};
    queue.UploadPageable(run.rows.data(), partial.rows.data(), partial.rows.size());
    queue.UploadPageable(run.slots.data(), partial.slots.data(), partial.slots.size());
    plan_->Join(queue, std::move(run));
  } catch (const CudaError& error) {
    if (!error.out_of_memory()) throw;
    queue.Synchronize();
    spilled_.push_back(
        {{partial.rows.begin(), partial.rows.end()}, {partial.slots.begin(), partial.slots.end()}});
    return;
  }
  Settle();
}

SharedState DeviceReduction::Share() {
  if (!spilled_.empty()) throw Refused("a part of its state is in host memory");
  SharedState shared{.device = context_.queue.pool().device(), .lsb = rule_.lsb};
  if (plan_ == nullptr) return shared;
  shared.run = plan_->Share(context_.queue);
  shared.side = side_;
  shared.addends = addends_;
  context_.queue.Synchronize();  // the other device does not wait for this queue
  return shared;
}

void DeviceReduction::JoinShared(const SharedState& shared) {
  if (shared.run == nullptr) return;
  if (plan_ == nullptr) MakePlan(shared.lsb);
  if (shared.lsb != rule_.lsb) throw Refused("the state of another device has another window");
  const SlotRun& from = *shared.run;
  if (from.size != 0) {
    Queue& queue = context_.queue;
    try {
      SlotRun run{{queue, from.size}, {queue, from.size * rule_.slots()}, from.size};
      queue.CopyFromDevice(run.rows.data(), shared.device, from.rows.data(), run.size);
      queue.CopyFromDevice(run.slots.data(), shared.device, from.slots.data(), run.slots.size());
      plan_->Join(queue, std::move(run));
    } catch (const CudaError& error) {
      // The error may be of the other device or of the link; this throws if it is of this one.
      queue.Synchronize();
      if (error.out_of_memory()) throw;
      throw Refused(error.what());
    }
    Settle();
  }
  AddSide(shared.side);
  addends_ += shared.addends;
}

void DeviceReduction::ForEachPiece(RunFunction f) {
  if (plan_ == nullptr) return;
  if (spilled_.empty()) {
    try {
      return plan_->WithState(context_.queue, f);
    } catch (const CudaError& error) {
      if (!error.out_of_memory() || plan_->bytes() == 0) throw;
    }
  }
  if (plan_->bytes() > 0) Spill();
  Piece whole;
  for (const HostRun& run : spilled_) whole.push_back({0, run.rows.size()});
  ForEachPieceOf(whole, f);
}

void DeviceReduction::ForEachPieceOf(const Piece& piece, RunFunction f) {
  const auto size_of = [](const auto& range) { return range.second - range.first; };
  uint64_t rows = 0;
  size_t largest = 0;
  for (size_t r = 0; r < piece.size(); ++r) {
    rows += size_of(piece[r]);
    if (size_of(piece[r]) > size_of(piece[largest])) largest = r;
  }
  if (rows == 0) return;
  const bool divisible = size_of(piece[largest]) > 1;
  // Merged and finalized it takes about twice what the last merge takes.
  const bool too_large = 2 * MergeBytes(rule_, rows, rows) > context_.queue.pool().free_bytes();
  if (!divisible || !too_large) {
    try {
      return f(Assemble(piece));
    } catch (const CudaError& error) {
      if (!error.out_of_memory() || !divisible) throw;
    }
  }
  const uint64_t middle =
      spilled_[largest].rows[piece[largest].first + size_of(piece[largest]) / 2];
  Piece low = piece;
  Piece high = piece;
  for (size_t r = 0; r < piece.size(); ++r) {
    const auto begin = spilled_[r].rows.begin();
    const auto at = std::lower_bound(begin + static_cast<std::ptrdiff_t>(piece[r].first),
                                     begin + static_cast<std::ptrdiff_t>(piece[r].second), middle);
    low[r].second = high[r].first = static_cast<uint64_t>(at - begin);
  }
  ForEachPieceOf(low, f);
  ForEachPieceOf(high, f);
}

SlotRun DeviceReduction::Assemble(const Piece& piece) {
  Queue& queue = context_.queue;
  const uint32_t width = rule_.slots();
  SlotRun merged;
  for (size_t r = 0; r < piece.size(); ++r) {
    const auto [begin, end] = piece[r];
    if (begin == end) continue;
    SlotRun run{{queue, end - begin}, {queue, (end - begin) * width}, end - begin};
    queue.UploadPageable(run.rows.data(), spilled_[r].rows.data() + begin, run.size);
    queue.UploadPageable(run.slots.data(), spilled_[r].slots.data() + begin * width,
                         run.size * width);
    merged = merged.size == 0 ? std::move(run) : MergeRuns(queue, rule_, merged, run);
  }
  CountRows(queue, merged);
  return merged;
}

Partial DeviceReduction::State() {
  Partial partial;
  partial.lsb = rule_.lsb;
  ForEachPiece([&](const SlotRun& run) {
    HostRun fetched = Fetch(run);
    partial.rows.insert(partial.rows.end(), fetched.rows.begin(), fetched.rows.end());
    partial.slots.insert(partial.slots.end(), fetched.slots.begin(), fetched.slots.end());
  });
  partial.side = side_;
  return partial;
}

Aggregate DeviceReduction::EmptyResult() const {
  const std::shared_ptr<HostMemory> memory = context_.results;
  Aggregate result;
  result.tensor.layout = ResultLayout(spec_);
  result.tensor.indices = HostVector<uint64_t>(HostAllocator<uint64_t>(memory));
  result.tensor.values = HostVector<std::byte>(HostAllocator<std::byte>(memory));
  return result;
}

absl::StatusOr<Aggregate> DeviceReduction::Finish(double total_weight) {
  Aggregate result = EmptyResult();
  result.addends = addends_;
  absl::Status status;
  ForEachPiece([&](const SlotRun& run) {
    if (!status.ok()) return;
    const size_t rows = result.tensor.indices.kept().size();
    const uint64_t infinite_values = result.infinite_values;
    try {
      status = FinalizePiece(run, total_weight, result);
    } catch (const CudaError&) {  // its rows come again, in smaller pieces
      result.tensor.indices.kept().resize(rows);
      result.tensor.values.resize(rows * result.tensor.layout.row_bytes());
      result.infinite_values = infinite_values;
      throw;
    }
  });
  SPARSEAGG_RETURN_IF_ERROR(status);
  return result;
}

Finalization DeviceReduction::FinalizationOf(double total_weight) const {
  return {spec_.op, rule_, total_weight, ResultLayout(spec_).row_width};
}

absl::StatusOr<Aggregate> DeviceReduction::Finish(Batch& last, double total_weight) {
  const DevicePlan* row = FindDevicePlan(plan_name_);
  if (!begun() && row->rounder.can != nullptr && !last.updates().empty()) {
    rule_.lsb = ChooseLsb(rule_, last.updates());
    if (last.nnz() <= kBatchEntriesMax && row->rounder.can(FinalizationOf(total_weight))) {
      std::optional<Aggregate> result = RoundAtOnce(row->rounder, last, total_weight);
      if (result.has_value()) return *std::move(result);
    }
  }
  Fold(last);
  return Finish(total_weight);
}

std::optional<Aggregate> DeviceReduction::RoundAtOnce(const BatchRounder& rounder, Batch& batch,
                                                      double total_weight) {
  std::optional<Aggregate> result;
  try {
    result = RoundView(rounder, batch.View(context_.queue), FinalizationOf(total_weight));
  } catch (const CudaError& error) {
    if (!error.out_of_memory()) throw;
    context_.queue.Synchronize();  // kernels may still read the batch
  }
  side_.clear();  // of a result it is a part; otherwise it is found again
  if (result.has_value()) batch.Take();
  return result;
}

std::optional<Aggregate> DeviceReduction::RoundView(const BatchRounder& rounder,
                                                    const BatchView& view,
                                                    const Finalization& finalization) {
  Queue& queue = context_.queue;
  const RoundedRows rounded = rounder.round(queue, view, finalization);
  const SlotRun& run = rounded.sorted.run;
  if (!run.is_counted()) context_.rows.Fetch(queue, run.number.data());
  context_.side.Fetch(queue, rounded.side.count.data());
  Aggregate result = EmptyResult();
  result.infinite_values = queue.Read(rounded.infinite.data());
  TakeSide(view, rounded.side, side_);
  // Among those may be rows whose sums are to be completed.
  if (!side_.empty() && result.infinite_values > 0) return std::nullopt;
  SortSide(side_);
  CompactSide(side_);
  result.addends = view.nnz;
  const uint64_t size = run.is_counted() ? run.size : context_.rows.Get();
  HostVector<uint64_t>& rows = result.tensor.indices.kept();
  rows.resize(size);
  result.tensor.values.resize(size * result.tensor.layout.row_bytes());
  context_.downloads.Copy(queue, run.rows.data(), rows.data(), size);
  context_.downloads.Copy(queue, rounded.values.data(), result.tensor.values.data(),
                          result.tensor.values.size());
  const auto slots_of = [&](const uint64_t* side_rows, uint64_t side_size, Int128* slots) {
    SumRoundedRows(queue, view, rule_, rounded, side_rows, side_size, slots);
  };
  FinalizeSideRows(slots_of, finalization.total_weight, 0, result);
  return result;
}

absl::Status DeviceReduction::FinalizePiece(const SlotRun& run, double total_weight,
                                            Aggregate& result) {
  Queue& queue = context_.queue;
  HostVector<uint64_t>& rows = result.tensor.indices.kept();
  const size_t row_bytes = result.tensor.layout.row_bytes();
  const size_t begin = rows.size();
  context_.downloads.Mark(queue);
  DeviceArray<std::byte> values(queue, run.size * row_bytes);
  DeviceArray<FinalizeOutcome> device_outcome(queue, 1);
  FinalizeOutcome outcome;
  queue.UploadPageable(device_outcome.data(), &outcome, 1);
  const std::vector<uint64_t> side_rows = RowsOf(side_);
  DeviceArray<uint64_t> device_side_rows(queue, side_rows.size());
  queue.UploadPageable(device_side_rows.data(), side_rows.data(), side_rows.size());
  FinalizeRun(queue, FinalizationOf(total_weight), run, {device_side_rows.data(), side_rows.size()},
              values.data(), device_outcome.data());
  // This runs beside the kernel.
  rows.resize(begin + run.size);
  context_.downloads.CopyMarked(queue, run.rows.data(), rows.data() + begin, run.size);
  outcome = queue.Read(device_outcome.data());
  if (outcome.overflow_at != FinalizeOutcome::kNone) {
    const uint32_t width = result.tensor.layout.row_width;
    return IntegerOverflowError(spec_, rows[begin + outcome.overflow_at / width],
                                static_cast<uint32_t>(outcome.overflow_at % width));
  }
  result.infinite_values += outcome.infinite_values;
  result.tensor.values.resize(rows.size() * row_bytes);
  context_.downloads.Copy(queue, values.data(), result.tensor.values.data() + begin * row_bytes,
                          run.size * row_bytes);
  const auto slots_of = [&](const uint64_t* some, uint64_t size, Int128* slots) {
    GatherSlots(queue, rule_, run, some, size, slots);
  };
  FinalizeSideRows(slots_of, total_weight, begin, result);
  return absl::OkStatus();
}

void DeviceReduction::FinalizeSideRows(SlotsOf slots_of, double total_weight, size_t result_begin,
                                       Aggregate& result) {
  Queue& queue = context_.queue;
  const HostVector<uint64_t>& result_rows = result.tensor.indices.kept();
  const std::vector<uint64_t> rows = SideRows(side_, result_rows, result_begin, result_rows.size());
  if (rows.empty()) return;
  DeviceArray<uint64_t> device_rows(queue, rows.size());
  queue.UploadPageable(device_rows.data(), rows.data(), rows.size());
  DeviceArray<Int128> device_slots(queue, rows.size() * rule_.slots());
  slots_of(device_rows.data(), rows.size(), device_slots.data());
  std::vector<Int128> slots(device_slots.size());
  context_.downloads.Copy(queue, device_slots.data(), slots.data(), slots.size());
  FinalizeWithSide({.spec = spec_, .lsb = rule_.lsb, .total_weight = total_weight}, rows, slots,
                   side_, result_begin, result);
}

uint64_t DeviceReduction::host_bytes() const {
  uint64_t bytes = side_.capacity() * sizeof(SideEntry);
  for (const HostRun& run : spilled_) {
    bytes += run.rows.size() * sizeof(uint64_t) + run.slots.size() * sizeof(Int128);
  }
  return bytes;
}

}  // namespace sparseagg::gpu
