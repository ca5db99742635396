// Protobuf writes a line for every text that is not UTF-8.
#ifndef SPARSEAGG_TESTS_FUZZ_SILENCE_PROTOBUF_H_
#define SPARSEAGG_TESTS_FUZZ_SILENCE_PROTOBUF_H_

#include <google/protobuf/stubs/logging.h>

namespace sparseagg::fuzz {

inline void SilenceProtobuf() {
  static const auto kLogHandler = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(kLogHandler);
}

}  // namespace sparseagg::fuzz

#endif  // SPARSEAGG_TESTS_FUZZ_SILENCE_PROTOBUF_H_
