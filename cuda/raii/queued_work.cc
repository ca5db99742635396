#include "cuda/raii/queued_work.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace sparseagg::gpu {

std::string ReadableName(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  if (demangled == nullptr) return name;  // a library's function
  std::string readable = demangled.get();
  for (const std::string_view prefix : {"sparseagg::gpu::", "(anonymous namespace)::"}) {
    for (size_t at; (at = readable.find(prefix)) != std::string::npos;) {
      readable.erase(at, prefix.size());
    }
  }
  return readable;
}

std::string QueuedWork::Describe() const {
  const uint64_t count = count_.load(std::memory_order_acquire);
  if (count == 0) return "";
  std::string text = "; queued since the last wait: ";
  const uint64_t first = count - std::min<uint64_t>(count, kKept);
  if (first > 0) text += std::to_string(first) + " others, ";
  for (uint64_t i = first; i < count; ++i) {
    if (i > first) text += ", ";
    text += ReadableName(names_[i % kKept].load(std::memory_order_relaxed));
  }
  return text;
}

}  // namespace sparseagg::gpu
