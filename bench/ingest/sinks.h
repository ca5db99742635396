// What ingestion is measured against: servers that receive the same bytes and do nothing with them.
#ifndef SPARSEAGG_BENCH_INGEST_SINKS_H_
#define SPARSEAGG_BENCH_INGEST_SINKS_H_

#include <string>

namespace sparseagg::bench {

// Serves one of them on a free port of this machine, writes the port to `port_file`, and does not
// return. `kind`:
//
//   null     gRPC, StreamUpdates raw on the callback API: messages are thrown away as they come
//   typed    the service as protoc generates it, callback API: messages are parsed and thrown away
//   copy     null, after their bytes were copied to a buffer of 64 MiB
//   answer   null, with a receipt for each message
//   adder    for dense updates: the generated synchronous API, chunks are added to one f32 vector
//   socket   no gRPC: read() of 256 KiB from a socket, copied to a buffer of 64 MiB
[[noreturn]] void ServeSink(const std::string& kind, const std::string& port_file);

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_INGEST_SINKS_H_
