#include "service/rpc/reading_threads.h"

#include <grpc/support/cpu.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>

namespace sparseagg {
namespace {

// By gRPC's name for them: another version may run reactions elsewhere.
bool IsReadingThread() {
  char name[16] = "";
  return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
         std::string_view(name) == "nexting_thread";
}

struct Call {
  grpc::ClientContext context;
  grpc::Slice nothing;
  grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer answer;
};

}  // namespace

struct ReadingThreads::Waiting {
  // A reaction to a call that fails at once: without credentials there is no connection.
  void BeginOne() {
    Call& call = calls.emplace_back();
    stub.UnaryCall(&call.context, "/none", {}, &call.request, &call.answer,
                   [this](const grpc::Status& /*status*/) { Wait(); });
  }

  void Wait() {
    std::unique_lock lock(mutex);
    if (IsReadingThread()) {
      ++threads;
      changed.wait(lock, [this] { return over; });
      --threads;
    }
    ++ended;
    changed.notify_all();
  }

  void End() {
    std::unique_lock lock(mutex);
    over = true;
    changed.notify_all();
    changed.wait(lock, [this] { return ended == calls.size(); });
  }

  grpc::GenericStub stub{grpc::CreateChannel("none", nullptr)};
  std::list<Call> calls;
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  size_t threads = 0;
  size_t ended = 0;  // of calls
};

ReadingThreads::ReadingThreads(size_t wanted) : waiting_(std::make_unique<Waiting>()) {
  for (size_t all = All(); all > wanted; --all) waiting_->BeginOne();
}

ReadingThreads::~ReadingThreads() { waiting_->End(); }

size_t ReadingThreads::Wanted() {
  return std::max<size_t>(1, std::thread::hardware_concurrency() / 2);
}

size_t ReadingThreads::All() { return std::clamp<size_t>(gpr_cpu_num_cores() / 2, 2, 16); }

size_t ReadingThreads::waiting() const {
  const std::lock_guard lock(waiting_->mutex);
  return waiting_->threads;
}

}  // namespace sparseagg
