// Every update by every transport into a real server, in memory and on the disk with a restart in
// between, and every answer in each layout and encoding: all bits are those of the exact result.
// Rounds are aimed at borders (rounds.h). SPARSEAGG_BORDER_SERVED_UPDATES says how many updates;
// SPARSEAGG_BORDER_SEED repeats the round of a failure alone.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/convert.h"
#include "tests/borders/rounds.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg::testing {
namespace {

enum class Transport { kUnary, kStream, kBatch, kChunks, kMixed };
constexpr Transport kAllTransports[] = {Transport::kUnary, Transport::kStream, Transport::kBatch,
                                        Transport::kChunks, Transport::kMixed};
constexpr const char* kTransportNames[] = {"unary", "stream", "batch", "chunks", "mixed"};
constexpr uint64_t kDurableRoundsPerRestart = 8;
constexpr uint64_t kDenseValuesMax = uint64_t{1} << 20;

// A stream that waits for the answer to each update, or to each batch.
class AnsweredStream {
 public:
  explicit AnsweredStream(TestClient& client)
      : stream_(client.stub().StreamUpdates(context_.get())) {}
  ~AnsweredStream() {
    stream_->WritesDone();
    EXPECT_TRUE(stream_->Finish().ok());
  }

  void SendWhole(const v1::SubmitUpdateRequest& update) {
    v1::StreamUpdatesRequest message;
    *message.mutable_update() = update;
    EXPECT_TRUE(stream_->Write(message));
    ExpectReceipts(1);
  }

  void SendBatch(const std::vector<v1::SubmitUpdateRequest>& updates) {
    v1::StreamUpdatesRequest message;
    for (const auto& update : updates) *message.mutable_batch()->add_updates() = update;
    message.set_takes_more(true);
    EXPECT_TRUE(stream_->Write(message));
    ExpectReceipts(updates.size());
  }

  void SendInChunks(const v1::SubmitUpdateRequest& update, Random& random) {
    const ChunkedUpdate chunked = Chunked(update);
    v1::StreamUpdatesRequest message;
    *message.mutable_begin() = chunked.begin;
    EXPECT_TRUE(stream_->Write(message));
    const v1::StreamUpdatesResponse progress = Receive();
    ASSERT_TRUE(progress.has_progress()) << progress.ShortDebugString();
    uint64_t offset = 0;
    for (const std::string_view piece : RandomPieces(chunked.bytes, random)) {
      *message.mutable_chunk() = ChunkOf(chunked, offset, piece.size());
      EXPECT_TRUE(stream_->Write(message));
      offset += piece.size();
    }
    ExpectReceipts(1);
  }

 private:
  // The next answer, also one that came together with others.
  v1::StreamUpdatesResponse Receive() {
    if (answers_.empty()) {
      v1::StreamUpdatesResponse response;
      EXPECT_TRUE(stream_->Read(&response));
      const auto more = std::move(*response.mutable_more());
      answers_.push_back(std::move(response));
      answers_.insert(answers_.end(), more.begin(), more.end());
    }
    const v1::StreamUpdatesResponse answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

  void ExpectReceipts(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const v1::StreamUpdatesResponse answer = Receive();
      ASSERT_TRUE(answer.has_receipt()) << answer.ShortDebugString();
    }
  }

  std::unique_ptr<grpc::ClientContext> context_ = NewContext();
  std::unique_ptr<grpc::ClientReaderWriter<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>>
      stream_;
  std::deque<v1::StreamUpdatesResponse> answers_;  // that have come and nobody has asked for
};

// One way to ask for a result.
struct Question {
  bool dense = false;
  bool selected = false;
  bool packed = false;
};

std::string Describe(const Question& question) {
  return absl::StrCat(question.dense ? "dense" : "sparse", question.selected ? ", selected" : "",
                      question.packed ? ", packed" : ", raw");
}

// What a tensor of the answer holds: rows, where it has any, and values.
struct Content {
  std::vector<uint64_t> rows;
  std::string values;
  friend bool operator==(const Content&, const Content&) = default;
};

Content Decode(const Answer& answer) {
  Content content;
  const v1::TensorHeader& sent = answer.header.tensors(0);
  const std::string indices = answer.indices();
  const std::string values = answer.values();
  if (indices.empty()) return {{}, values};  // dense, or nothing
  const EncodedHeader header = FromProto(sent).value();
  const TensorSpec spec{.name = header.name,
                        .value_type = header.value_type,
                        .dense_shape = header.dense_shape,
                        .sparse_dim = header.sparse_dim};
  const TensorLayout layout = MakeLayout(spec).value();
  content.rows.resize(header.nnz);
  content.values.resize(header.nnz * layout.row_bytes());
  const std::string_view index_bytes = indices;
  const std::string_view value_bytes = values;
  EXPECT_TRUE(InspectTensor(header, spec).ok());
  const absl::Status decoded =
      (*FindEncoding(header.encoding))
          ->decode(header, spec, ByteChain(&index_bytes, 1), ByteChain(&value_bytes, 1),
                   {layout, header.nnz, content.rows.data(), content.values.data()});
  EXPECT_TRUE(decoded.ok()) << decoded;
  return content;
}

// Returns the part of the exact result that answers `question`.
Content Select(const SparseTensor& exact, const Question& question,
               const std::vector<uint64_t>& selection) {
  const uint64_t row_bytes = exact.layout.row_bytes();
  const auto value_of = [&](uint64_t row) {
    const uint64_t i = exact.indices.LowerBound(row);
    if (i == exact.nnz() || exact.indices[i] != row) return std::string(row_bytes, '\0');
    return std::string(reinterpret_cast<const char*>(exact.values.data()) + i * row_bytes,
                       row_bytes);
  };
  Content content;
  if (question.dense) {
    std::vector<uint64_t> rows = selection;
    if (!question.selected) {
      rows.resize(exact.layout.num_rows);
      std::iota(rows.begin(), rows.end(), uint64_t{0});
    }
    for (const uint64_t row : rows) content.values += value_of(row);
    return content;
  }
  for (const uint64_t row : exact.indices) {
    if (question.selected && std::find(selection.begin(), selection.end(), row) == selection.end())
      continue;
    content.rows.push_back(row);
    content.values += value_of(row);
  }
  return content;
}

class ServedBordersTest : public ::testing::Test {
 protected:
  struct Served {
    BorderRound round;
    SparseTensor exact;
    std::string name;
    size_t sent = 0;  // updates that the server has
  };

  ServedBordersTest() { Start(); }

  void Start() {
    client_.reset();
    server_.reset();
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--data-dir", folder_.path(), "--store-free-bytes-min", "0", "--threads", "2"});
    ASSERT_NE(server_->address(), "") << server_->log();
    client_ = std::make_unique<TestClient>(NewChannel(server_->address()));
  }

  v1::RoundSpec SpecOf(const BorderRound& round, v1::Durability durability) {
    constexpr const char* kPlans[] = {"", "", "", "dense", "sweep", "partition", "rows"};
    v1::RoundSpec spec;
    *spec.add_tensors() = ToProto(round.tensor);
    const bool huge = round.spec.layout.num_rows > kDenseValuesMax;
    const std::string plan = kPlans[Below(random_, std::size(kPlans))];
    if (!huge || plan != "dense") spec.mutable_tensors(0)->set_plan(plan);
    spec.set_durability(durability);
    return spec;
  }

  v1::SubmitUpdateRequest Message(const Served& served, size_t u) {
    const Update& update = served.round.updates[u];
    const Wire wire = kAllWires[Below(random_, std::size(kAllWires))];
    EncodedEntries encoded = Encode(served.round, update, wire, random_);
    v1::SubmitUpdateRequest message;
    message.mutable_header()->set_round(served.name);
    message.mutable_header()->set_contributor(absl::StrCat("c", u));
    message.mutable_header()->set_update_id(absl::StrCat("u", u));
    message.mutable_header()->set_weight(update.weight);
    v1::Tensor& tensor = *message.add_tensors();
    *tensor.mutable_header() = ToProto(encoded.header);
    tensor.set_indices(std::move(encoded.indices));
    tensor.set_values(std::move(encoded.values));
    return message;
  }

  // Updates [served.sent, end).
  void Send(Served& served, size_t end, Transport transport) {
    std::vector<v1::SubmitUpdateRequest> messages;
    for (; served.sent < end; ++served.sent) messages.push_back(Message(served, served.sent));
    if (messages.empty()) return;
    AnsweredStream stream(*client_);
    if (transport == Transport::kBatch) return stream.SendBatch(messages);
    for (const v1::SubmitUpdateRequest& message : messages) {
      Transport one = transport;
      if (transport == Transport::kMixed) one = kAllTransports[Below(random_, 4)];
      switch (one) {
        case Transport::kUnary: {
          const auto receipt = client_->Submit(message);
          EXPECT_TRUE(receipt.ok()) << receipt.status();
          break;
        }
        case Transport::kBatch:
          stream.SendBatch({message});
          break;
        case Transport::kChunks:
          stream.SendInChunks(message, random_);
          break;
        default:
          stream.SendWhole(message);
      }
    }
  }

  // Held rows, their neighbours, and others, in no order.
  std::vector<uint64_t> RowsToSelect(const Served& served) {
    const uint64_t num_rows = served.exact.layout.num_rows;
    std::vector<uint64_t> rows = {0, num_rows - 1, random_() % num_rows};
    for (int i = 0; i < 20 && !served.exact.indices.empty(); ++i) {
      const uint64_t row = served.exact.indices[random_() % served.exact.nnz()];
      rows.push_back(row);
      if (row + 1 < num_rows) rows.push_back(row + 1);
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    std::shuffle(rows.begin(), rows.end(), random_);
    return rows;
  }

  bool ExpectAnswer(const Served& served, const Question& question, const std::string& what) {
    v1::GetAggregateRequest request;
    request.set_name(served.name);
    request.set_layout(question.dense ? v1::RESULT_LAYOUT_DENSE : v1::RESULT_LAYOUT_SPARSE);
    request.set_encoding(question.packed ? "coo.packed" : "coo.raw");
    request.set_chunk_bytes(OneIn(random_, 2) ? 4096 : 0);
    std::vector<uint64_t> selection;
    if (question.selected) {
      selection = RowsToSelect(served);
      std::vector<int64_t> indices;
      for (const uint64_t row : selection) {
        if (served.round.tensor.sparse_dim == 2) indices.push_back(static_cast<int64_t>(row / 8));
        indices.push_back(
            static_cast<int64_t>(served.round.tensor.sparse_dim == 2 ? row % 8 : row));
      }
      v1::IndexSelection& selected = *request.add_selections();
      selected.set_tensor(served.round.tensor.name);
      selected.set_indices(Bytes(indices));
    }
    const auto answer = client_->Aggregate(request);
    EXPECT_TRUE(answer.ok()) << answer.status() << "; " << Describe(served.round);
    if (!answer.ok()) return false;
    const bool same = Decode(*answer) == Select(served.exact, question, selection);
    EXPECT_TRUE(same) << Describe(served.round) << "; " << what << "; " << Describe(question);
    return same;
  }

  bool ExpectExact(const Served& served, const std::string& what, bool all_questions) {
    const auto published = client_->Publish(served.name);
    EXPECT_TRUE(published.ok()) << published.status();
    if (!published.ok()) return false;
    EXPECT_EQ(published->state(), v1::ROUND_STATE_PUBLISHED)
        << published->failure() << "; " << Describe(served.round);
    if (published->state() != v1::ROUND_STATE_PUBLISHED) return false;
    bool same = true;
    for (int q = 0; q < 8; ++q) {
      const Question question{
          .dense = (q & 1) != 0, .selected = (q & 2) != 0, .packed = (q & 4) != 0};
      const uint64_t values = served.exact.layout.num_rows * served.exact.layout.row_width;
      if (question.dense && !question.selected && values > kDenseValuesMax) continue;
      if (!all_questions && !OneIn(random_, 4)) continue;
      same &= ExpectAnswer(served, question, what);
    }
    EXPECT_TRUE(client_->Delete(served.name).ok());
    return same;
  }

  // The round is in memory, and one transport is used.
  bool CheckInMemory(const Served& made, Transport transport) {
    Served served = made;
    const char* const what = kTransportNames[static_cast<size_t>(transport)];
    const auto created = client_->Create(SpecOf(served.round, v1::DURABILITY_MEMORY),
                                         absl::StrCat("m", served.round.seed, "-", what));
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return false;
    served.name = created->name();
    Send(served, served.round.updates.size(), transport);
    return ExpectExact(served, what, transport == Transport::kUnary);
  }

  // Without a round.
  bool CheckReduce(const Served& made) {
    Served served = made;
    const Question question{
        .dense = OneIn(random_, 2) &&
                 served.exact.layout.num_rows * served.exact.layout.row_width <= kDenseValuesMax,
        .packed = OneIn(random_, 2)};
    std::vector<v1::ReduceRequest> messages(1);
    v1::ReduceStart& start = *messages[0].mutable_start();
    *start.mutable_spec() = SpecOf(served.round, v1::DURABILITY_UNSPECIFIED);
    start.set_layout(question.dense ? v1::RESULT_LAYOUT_DENSE : v1::RESULT_LAYOUT_SPARSE);
    start.set_encoding(question.packed ? "coo.packed" : "");
    for (size_t u = 0; u < served.round.updates.size(); ++u) {
      const v1::SubmitUpdateRequest update = Message(served, u);
      if (OneIn(random_, 2)) {
        *messages.emplace_back().mutable_update() = update;
        continue;
      }
      const ChunkedUpdate chunked = Chunked(update);
      *messages.emplace_back().mutable_begin() = chunked.begin;
      uint64_t offset = 0;
      for (const std::string_view piece : RandomPieces(chunked.bytes, random_)) {
        *messages.emplace_back().mutable_chunk() = ChunkOf(chunked, offset, piece.size());
        offset += piece.size();
      }
    }
    const auto answer = client_->Reduce(messages);
    EXPECT_TRUE(answer.ok()) << answer.status() << "; " << Describe(served.round);
    if (!answer.ok()) return false;
    const bool same = Decode(*answer) == Select(served.exact, question, {});
    EXPECT_TRUE(same) << Describe(served.round) << "; Reduce; " << Describe(question);
    return same;
  }

  // On the disk: a part of the updates before the next restart.
  void BeginDurable(const Served& made) {
    Served served = made;
    const auto created = client_->Create(SpecOf(served.round, v1::DURABILITY_DURABLE),
                                         absl::StrCat("d", served.round.seed));
    ASSERT_TRUE(created.ok()) << created.status();
    served.name = created->name();
    Send(served, Below(random_, served.round.updates.size() + 1), Transport::kMixed);
    durable_.push_back(std::move(served));
  }

  // Ends the server, by a stop or a kill, starts it again, and sends what is left.
  bool FinishDurable() {
    server_->Signal(OneIn(random_, 2) ? SIGKILL : SIGTERM);
    server_->Wait();
    Start();
    bool same = true;
    for (Served& served : std::exchange(durable_, {})) {
      Send(served, served.round.updates.size(), Transport::kMixed);
      same &= ExpectExact(served, "durable, after a restart", false);
    }
    return same;
  }

  // Returns whether all answers are exact.
  bool Check(uint64_t seed) {
    random_.seed(seed ^ 0x9E3779B97F4A7C15);
    Served served{.round = MakeBorderRound(seed, Scale::kService)};
    auto exact = ExactResult(served.round);
    if (!exact.ok()) return true;  // a sum beyond its type: there is no result
    served.exact = std::move(exact->tensor);
    updates_ += served.round.updates.size();
    bool same = CheckReduce(served);
    for (const Transport transport : kAllTransports) same &= CheckInMemory(served, transport);
    BeginDurable(served);
    if (durable_.size() == kDurableRoundsPerRestart) same &= FinishDurable();
    return same;
  }

  TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<TestClient> client_;
  std::vector<Served> durable_;
  Random random_;
  uint64_t updates_ = 0;
};

TEST_F(ServedBordersTest, EveryTransportAndEveryAnswerGiveTheExactResult) {
  const int wanted = Effort("SPARSEAGG_BORDER_SERVED_UPDATES", 400);
  ForEachSeed(static_cast<uint64_t>(wanted), updates_,
              [this](uint64_t seed) { return Check(seed); });
  FinishDurable();
}

}  // namespace
}  // namespace sparseagg::testing
