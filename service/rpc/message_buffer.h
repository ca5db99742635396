// The message that a stream reads into. Small messages reuse its memory; a large one gives it back,
// as protobuf keeps the capacity of the largest message that an object has ever held.
#ifndef SPARSEAGG_SERVICE_RPC_MESSAGE_BUFFER_H_
#define SPARSEAGG_SERVICE_RPC_MESSAGE_BUFFER_H_

#include <cstddef>
#include <memory>

namespace sparseagg {

template <typename Message>
class MessageBuffer {
 public:
  Message* get() { return message_.get(); }
  Message* operator->() { return message_.get(); }
  Message& operator*() { return *message_; }

  // To be called when the message has been handled.
  void Release() {
    if (message_->ByteSizeLong() > kKeptBytesMax) message_ = std::make_unique<Message>();
  }

 private:
  static constexpr size_t kKeptBytesMax =
      (size_t{1} << 20) + 4096;  // a chunk of the recommended size

  std::unique_ptr<Message> message_ = std::make_unique<Message>();
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_MESSAGE_BUFFER_H_
