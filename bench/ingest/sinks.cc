#include "bench/ingest/sinks.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "sparseagg/v1/aggregation.grpc.pb.h"

namespace sparseagg::bench {
namespace {

using Service = v1::AggregationService;
using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Where bytes are copied to: beyond what caches hold, as staged memory is.
class Ring {
 public:
  Ring() : bytes_(size_t{64} << 20) {}
  void Copy(const void* from, size_t size) {
    if (at_ + size > bytes_.size()) at_ = 0;
    std::memcpy(bytes_.data() + at_, from, size);
    at_ += size;
  }

 private:
  std::vector<char> bytes_;
  size_t at_ = 0;
};

grpc::ByteBuffer ReceiptBytes() {
  v1::StreamUpdatesResponse response;
  response.set_update_id("update-0");
  response.mutable_receipt()->set_round("rounds/r");
  response.mutable_receipt()->set_contributor("contributor-0");
  response.mutable_receipt()->set_digest(std::string(32, 'd'));
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

class SinkCall : public Reactor {
 public:
  SinkCall(bool copy, bool answer) : copy_(copy), answer_(answer) { StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const std::lock_guard lock(mutex_);
      reads_done_ = true;
      return FinishIfDone();
    }
    if (copy_) {
      slices_.clear();
      if (message_.Dump(&slices_).ok()) {
        for (const grpc::Slice& slice : slices_) ring_.Copy(slice.begin(), slice.size());
      }
      slices_.clear();
    }
    message_.Clear();
    if (answer_) {
      const std::lock_guard lock(mutex_);
      answers_.push_back(ReceiptBytes());
      WriteNext();
    }
    StartRead(&message_);
  }

  void OnWriteDone(bool /*ok*/) override {
    const std::lock_guard lock(mutex_);
    answers_.pop_front();
    writing_ = false;
    WriteNext();
    FinishIfDone();
  }

  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (writing_ || answers_.empty()) return;
    writing_ = true;
    auto options = grpc::WriteOptions();
    if (answers_.size() > 1) options.set_buffer_hint();
    StartWrite(&answers_.front(), options);
  }
  void FinishIfDone() {
    if (reads_done_ && answers_.empty() && !finished_) {
      finished_ = true;
      Finish(grpc::Status::OK);
    }
  }

  const bool copy_;
  const bool answer_;
  grpc::ByteBuffer message_;
  std::vector<grpc::Slice> slices_;
  Ring ring_;
  std::mutex mutex_;
  std::deque<grpc::ByteBuffer> answers_;
  bool writing_ = false;
  bool reads_done_ = false;
  bool finished_ = false;
};

class SinkService : public Service::WithRawCallbackMethod_StreamUpdates<Service::Service> {
 public:
  SinkService(bool copy, bool answer) : copy_(copy), answer_(answer) {}
  Reactor* StreamUpdates(grpc::CallbackServerContext* /*context*/) override {
    return new SinkCall(copy_, answer_);
  }

 private:
  const bool copy_;
  const bool answer_;
};

// What the proto's generated service is for: messages are parsed, and thrown away.
class TypedSinkCall
    : public grpc::ServerBidiReactor<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse> {
 public:
  TypedSinkCall() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  v1::StreamUpdatesRequest message_;
};

class TypedSinkService : public Service::WithCallbackMethod_StreamUpdates<Service::Service> {
 public:
  grpc::ServerBidiReactor<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>* StreamUpdates(
      grpc::CallbackServerContext* /*context*/) override {
    return new TypedSinkCall();
  }
};

// Adds the chunks of dense updates up. One stream at a time; the sum stays in memory.
class AdderService : public Service::Service {
 public:
  grpc::Status StreamUpdates(grpc::ServerContext* /*context*/,
                             grpc::ServerReaderWriter<v1::StreamUpdatesResponse,
                                                      v1::StreamUpdatesRequest>* stream) override {
    std::fill(sum_.begin(), sum_.end(), 0.0f);
    v1::StreamUpdatesRequest request;
    while (stream->Read(&request)) {
      if (request.has_chunk())
        Add(request.chunk().offset() / sizeof(float), request.chunk().data());
    }
    return grpc::Status::OK;
  }

 private:
  void Add(size_t at, const std::string& data) {
    const size_t count = data.size() / sizeof(float);
    if (sum_.size() < at + count) sum_.resize(at + count);
    const auto* values = reinterpret_cast<const float*>(data.data());
    float* sum = sum_.data() + at;
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }

  std::vector<float> sum_;
};

void WritePort(int port, const std::string& port_file) {
  const std::string temporary = port_file + ".new";
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) std::exit(1);
  std::fprintf(file, "%d\n", port);
  std::fclose(file);
  std::rename(temporary.c_str(), port_file.c_str());
}

[[noreturn]] void ServeGrpc(grpc::Service& service, const std::string& port_file) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(16 << 20);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  WritePort(port, port_file);
  server->Wait();
  std::exit(0);
}

[[noreturn]] void ServeSocket(const std::string& port_file) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::exit(1);
  }
  WritePort(ntohs(address.sin_port), port_file);
  Ring ring;
  std::vector<char> buffer(size_t{256} << 10);
  while (true) {
    const int connection = accept(listener, nullptr, nullptr);
    while (true) {
      const ssize_t got = read(connection, buffer.data(), buffer.size());
      if (got <= 0) break;
      ring.Copy(buffer.data(), static_cast<size_t>(got));
    }
    close(connection);  // the sender waits for this
  }
}

}  // namespace

void ServeSink(const std::string& kind, const std::string& port_file) {
  // As the server does: freed memory is kept.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  if (kind == "socket") ServeSocket(port_file);
  if (kind == "adder") {
    AdderService service;
    ServeGrpc(service, port_file);
  }
  if (kind == "typed") {
    TypedSinkService service;
    ServeGrpc(service, port_file);
  }
  SinkService service(kind == "copy", kind == "answer");
  ServeGrpc(service, port_file);
}

}  // namespace sparseagg::bench
