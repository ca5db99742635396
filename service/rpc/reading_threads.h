// The threads on which gRPC reads connections and runs the reactions of calls. It starts half as
// many as the machine has processors, 2 at least and 16 at most (1.51), whatever this process may
// use of them, and there is no setting. One more than are needed is woken for each event, and reads
// what comes next on a connection while a message of it is handled: that has left the caches when
// its turn comes. With one in place of two on two processors, updates in large messages take 6 to
// 14 % less of the server's CPU (docs/decisions/0013-ingest.md).
#ifndef SPARSEAGG_SERVICE_RPC_READING_THREADS_H_
#define SPARSEAGG_SERVICE_RPC_READING_THREADS_H_

#include <cstddef>
#include <memory>

namespace sparseagg {

// Lets those of gRPC's threads that are not wanted wait until the end, in a reaction each. Whatever
// else the process does on them has the others, so it must not block there. One of these in a
// process, for as long as its server runs; where gRPC has no such threads, it does nothing.
class ReadingThreads {
 public:
  // Leaves `wanted` > 0 threads.
  explicit ReadingThreads(size_t wanted = Wanted());
  ~ReadingThreads();
  ReadingThreads(const ReadingThreads&) = delete;
  ReadingThreads& operator=(const ReadingThreads&) = delete;

  // Half of the processors that this process may use, but one at least.
  static size_t Wanted();
  // Those that gRPC makes (1.51: CompletionQueue::CallbackAlternativeCQ()).
  static size_t All();
  // Those that wait. The constructor does not wait for them.
  size_t waiting() const;

  struct Waiting;

 private:
  const std::shared_ptr<Waiting> waiting_;
};

// While there is one, no thread waits: small messages are best read by one thread while another
// handles those before them (service/rpc/read_ahead.h). Thread-safe; does not block.
class AllReadingThreads {
 public:
  AllReadingThreads();
  ~AllReadingThreads();
  AllReadingThreads(const AllReadingThreads&) = delete;
  AllReadingThreads& operator=(const AllReadingThreads&) = delete;

 private:
  const std::shared_ptr<ReadingThreads::Waiting> waiting_;  // null: none wait in this process
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_READING_THREADS_H_
