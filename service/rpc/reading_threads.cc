#include "service/rpc/reading_threads.h"

#include <grpc/support/cpu.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

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
  explicit Waiting(size_t threads_max) : threads_max(threads_max) {}

  // As many reactions as threads are to wait, each to a call that fails at once: without
  // credentials there is no connection.
  void Begin() {
    while (NoteBegin()) {
      const auto call = std::make_shared<Call>();
      stub.UnaryCall(&call->context, "/none", {}, &call->request, &call->answer,
                     [this, call](const grpc::Status& /*status*/) { Wait(); });
    }
  }

  bool NoteBegin() {
    const std::lock_guard lock(mutex);
    if (borrowers > 0 || reactions == threads_max) return false;
    ++reactions;
    return true;
  }

  void Wait() {
    std::unique_lock lock(mutex);
    if (IsReadingThread()) {
      ++threads;
      changed.wait(lock, [this] { return borrowers > 0; });
      --threads;
    }
    --reactions;
    changed.notify_all();
  }

  void Borrow() {
    const std::lock_guard lock(mutex);
    ++borrowers;
    changed.notify_all();
  }

  void Return() {
    {
      const std::lock_guard lock(mutex);
      --borrowers;
    }
    Begin();
  }

  // Borrows them for good.
  void End() {
    Borrow();
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return reactions == 0; });
  }

  const size_t threads_max;
  grpc::GenericStub stub{grpc::CreateChannel("none", nullptr)};
  mutable std::mutex mutex;
  std::condition_variable changed;
  size_t reactions = 0;  // begun, and not at their end
  size_t threads = 0;    // of them, those that wait
  size_t borrowers = 0;
};

namespace {

struct Process {
  std::mutex mutex;
  std::shared_ptr<ReadingThreads::Waiting> waiting;
};

Process& ThisProcess() {
  static auto& process = *new Process;
  return process;
}

std::shared_ptr<ReadingThreads::Waiting> OfThisProcess() {
  const std::lock_guard lock(ThisProcess().mutex);
  return ThisProcess().waiting;
}

void SetOfThisProcess(std::shared_ptr<ReadingThreads::Waiting> waiting) {
  const std::lock_guard lock(ThisProcess().mutex);
  ThisProcess().waiting = std::move(waiting);
}

}  // namespace

ReadingThreads::ReadingThreads(size_t wanted)
    : waiting_(std::make_shared<Waiting>(All() - std::min(All(), wanted))) {
  SetOfThisProcess(waiting_);
  waiting_->Begin();
}

ReadingThreads::~ReadingThreads() {
  SetOfThisProcess(nullptr);
  waiting_->End();
}

size_t ReadingThreads::Wanted() {
  return std::max<size_t>(1, std::thread::hardware_concurrency() / 2);
}

size_t ReadingThreads::All() { return std::clamp<size_t>(gpr_cpu_num_cores() / 2, 2, 16); }

size_t ReadingThreads::waiting() const {
  const std::lock_guard lock(waiting_->mutex);
  return waiting_->threads;
}

AllReadingThreads::AllReadingThreads() : waiting_(OfThisProcess()) {
  if (waiting_ != nullptr) waiting_->Borrow();
}

AllReadingThreads::~AllReadingThreads() {
  if (waiting_ != nullptr) waiting_->Return();
}

}  // namespace sparseagg
