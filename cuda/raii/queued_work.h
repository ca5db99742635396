// The work that is queued on a stream since its last successful wait. The device reports an error
// of a kernel at a later call, so the error of that call names the kernels that may have made it.
#ifndef SPARSEAGG_CUDA_RAII_QUEUED_WORK_H_
#define SPARSEAGG_CUDA_RAII_QUEUED_WORK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sparseagg::gpu {

// One thread at a time notes and forgets; Describe() is thread-safe, so that others can say what a
// thread that hangs waits for.
class QueuedWork {
 public:
  // `name` is kept as a pointer: of a type (std::type_info::name()), or of a library's function.
  void Note(const char* name) {
    const uint64_t at = count_.load(std::memory_order_relaxed);
    names_[at % kKept].store(name, std::memory_order_relaxed);
    count_.store(at + 1, std::memory_order_release);
  }
  // Everything noted is known to have ended well.
  void Forget() { count_.store(0, std::memory_order_release); }

  // "; queued since the last wait: A, B, C" with the last few; empty when there is nothing.
  std::string Describe() const;

 private:
  static constexpr size_t kKept = 24;  // about what a plan queues for a batch
  std::atomic<const char*> names_[kKept] = {};
  std::atomic<uint64_t> count_{0};
};

// The name of a kernel as people write it.
std::string ReadableName(const char* name);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_QUEUED_WORK_H_
