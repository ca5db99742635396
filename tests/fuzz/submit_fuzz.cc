// SubmitUpdateRequest as it comes over the wire: parsed, converted, counted or refused. A refusal
// counts nothing; what was counted is recognised when it comes again.
#include "service/rpc/wire/update_proto.h"
#include "tests/fuzz/engine_target.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/silence_protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparseagg;
  using fuzz::Require;
  static fuzz::EngineTarget target;
  const std::string_view pieces[] = {fuzz::FuzzInput(data, size).Rest()};
  fuzz::SilenceProtobuf();
  const auto received = ReadSubmitUpdate(pieces);
  if (!received.ok()) return 0;
  const auto tensors = EncodedTensorsOf(*received);
  if (!tensors.ok()) return 0;
  const UpdateHeader header = FromProto(received->header);
  Engine& engine = target.EngineWithRound();
  const auto receipt = engine.Submit(header, *tensors);
  target.Note(header, receipt);
  if (receipt.ok()) {
    const auto again = engine.Submit(header, *tensors);
    Require(again.ok() && again->duplicate && again->sequence == receipt->sequence &&
                again->digest == receipt->digest,
            "a resend is not recognised");
    UpdateHeader other = header;
    other.update_id = other.update_id == "a" ? "b" : "a";
    Require(!engine.Submit(other, *tensors).ok(), "a contributor is counted twice");
  }
  target.CheckBooks();
  return 0;
}
