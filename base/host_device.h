// The only code that depends on the kind of compiler. Functions marked SPARSEAGG_HOST_DEVICE run on
// CPU and GPU, so that both use the same source for everything that decides a bit of a result.
#ifndef SPARSEAGG_BASE_HOST_DEVICE_H_
#define SPARSEAGG_BASE_HOST_DEVICE_H_

#include <cstdint>

#ifdef __CUDACC__
#define SPARSEAGG_HOST_DEVICE __host__ __device__
#else
#define SPARSEAGG_HOST_DEVICE
#endif

// Happens-before edges through libraries that ThreadSanitizer cannot see into (oneTBB is not
// instrumented).
#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#define SPARSEAGG_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define SPARSEAGG_TSAN_RELEASE(address) __tsan_release(address)
#else
#define SPARSEAGG_TSAN_ACQUIRE(address) static_cast<void>(address)
#define SPARSEAGG_TSAN_RELEASE(address) static_cast<void>(address)
#endif

namespace sparseagg {

// Number of leading and trailing zero bits. REQUIRES: value != 0.
SPARSEAGG_HOST_DEVICE inline int CountLeadingZeros(uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(value));
#else
  return __builtin_clzll(value);
#endif
}
SPARSEAGG_HOST_DEVICE inline int CountTrailingZeros(uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(value)) - 1;
#else
  return __builtin_ctzll(value);
#endif
}
// Number of bits set.
SPARSEAGG_HOST_DEVICE inline int PopulationCount(uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __popcll(value);
#else
  return __builtin_popcountll(value);
#endif
}

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_HOST_DEVICE_H_
