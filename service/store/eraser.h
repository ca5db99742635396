// Erases the payloads of a durable store, in transactions so short that others commit between two.
#ifndef SPARSEAGG_SERVICE_STORE_ERASER_H_
#define SPARSEAGG_SERVICE_STORE_ERASER_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "service/store/payload_files.h"
#include "service/store/tables.h"

namespace sparseagg {

// Thread-safe. Database and files; the books are the caller's.
class Eraser {
 public:
  // `database_mutex` guards `tables` and is taken for each transaction. All must outlive this.
  Eraser(std::mutex& database_mutex, Tables& tables, PayloadFiles& files)
      : database_mutex_(database_mutex), tables_(tables), files_(files) {}

  // What the updates of a round carry.
  absl::Status EraseContents(int64_t round);
  // That and the updates.
  absl::Status EraseUpdates(int64_t round);

 private:
  std::mutex& database_mutex_;
  Tables& tables_;
  PayloadFiles& files_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_STORE_ERASER_H_
