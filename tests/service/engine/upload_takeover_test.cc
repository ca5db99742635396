// A stream refuses its upload while another stream resumes it. The second stream runs at every
// point at which the first has just released a lock: pthread_mutex_unlock is interposed.
#include <pthread.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/service/engine/testing.h"
#include "tests/support/interpose.h"

namespace sparseagg {
namespace {

// State of this thread while it is watched.
thread_local int held = 0;
thread_local const std::function<void()>* when_free = nullptr;

// Calls f() whenever `act` has released its last mutex.
void RunWithBreaks(const std::function<void()>& act, const std::function<void()>& f) {
  held = 0;
  when_free = &f;
  act();
  when_free = nullptr;
}

void AfterUnlock() {
  if (when_free == nullptr || --held > 0) return;
  const std::function<void()>& f = *when_free;
  when_free = nullptr;
  f();
  when_free = &f;
}

}  // namespace
}  // namespace sparseagg

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const kNext = sparseagg::testing::Next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  const int result = kNext(mutex);
  if (sparseagg::when_free != nullptr && result == 0) ++sparseagg::held;
  return result;
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static auto* const kNext =
      sparseagg::testing::Next<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  const int result = kNext(mutex);
  sparseagg::AfterUnlock();
  return result;
}

namespace sparseagg {
namespace {

using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

TEST(UploadTakeoverTest, AStreamThatTookAnUploadOverKeepsIt) {
  TestEngine engine;
  const TensorSpec spec = Sparse("t", 10);
  const std::string round = engine.Create({spec}).name;
  TestUpdate update(round, "a");
  update.Add<float>(spec, {3, 4}, {1, 2});
  const std::string bytes = update.byte_string();
  const auto begin = [&] { return engine->BeginUpload(update.header, update.headers()); };

  int breaks = 0;
  for (int at = 0; at <= breaks; ++at) {  // the second stream runs at one of them
    const auto first = begin();
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE((*first)->Append(0, bytes.substr(0, 5), std::nullopt).ok());
    std::shared_ptr<Upload> second;
    breaks = 0;
    RunWithBreaks([&] { (*first)->Refuse(absl::InvalidArgumentError("it breaks a rule")); },
                  [&] {
                    if (breaks++ == at) second = *begin();
                  });
    ASSERT_GT(breaks, 0) << "no mutex was seen";
    if (second == nullptr) break;  // the first had ended
    // Whether this is a new upload or the same one, it belongs to this stream.
    EXPECT_TRUE(second
                    ->Append(second->committed_offset(), bytes.substr(second->committed_offset()),
                             std::nullopt)
                    .ok())
        << "at break " << at;
    second->Refuse(absl::InvalidArgumentError("for the next turn"));
  }
}

}  // namespace
}  // namespace sparseagg
