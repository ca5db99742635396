// How a piece of the answer about a divided result is read from its owners.
#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/result/part_reader.h"
#include "service/rpc/result/divided_answer.h"

namespace sparseagg {

absl::Status InconsistentPart(const ResultPart& part, std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, "OWNER_LOST",
                   absl::StrCat("the part of owner \"", part.owner.id, "\" ", std::string(what)));
}

// A piece of the answer: what each owner is asked for, and where it belongs.
struct DividedAnswer::Reading {
  struct Copy {
    size_t from = 0;  // in what the owner sends
    size_t to = 0;
    size_t bytes = 0;
  };
  struct Fetch {
    size_t part = 0;
    uint64_t offset = 0;
    size_t bytes = 0;
    std::vector<Copy> copies;
  };

  std::shared_ptr<const DividedAnswer> answer;
  Read read;
  std::vector<Fetch> fetches;
  std::mutex mutex;  // guards what follows
  size_t missing = 0;
  std::string data;
  absl::Status failed;

  void Add(const Segment& segment, uint64_t skip, size_t bytes, size_t to) {
    const uint64_t offset = segment.part_offset + skip;
    auto fetch = std::find_if(fetches.rbegin(), fetches.rend(),
                              [&](const Fetch& one) { return one.part == segment.part; });
    if (fetch == fetches.rend() || fetch->offset + fetch->bytes != offset) {
      fetches.push_back({segment.part, offset, 0, {}});
      fetch = fetches.rbegin();
    }
    fetch->copies.push_back({fetch->bytes, to, bytes});
    fetch->bytes += bytes;
  }

  void Take(const Fetch& fetch, const absl::StatusOr<v1::ReadResultResponse>& found) {
    {
      const std::lock_guard lock(mutex);
      if (!found.ok()) {
        failed.Update(found.status());
      } else if (found->chunk().data().size() != fetch.bytes) {
        failed.Update(InconsistentPart(answer->result_->manifest.parts[fetch.part],
                                       "is shorter than its header says"));
      } else {
        for (const Copy& copy : fetch.copies) {
          found->chunk().data().copy(data.data() + copy.to, copy.bytes, copy.from);
        }
      }
      if (--missing > 0) return;
    }
    failed.ok() ? read(std::move(data)) : read(failed);
  }
};

void DividedAnswer::ReadAt(uint64_t offset, size_t n, const Read& read) const {
  const auto reading = std::make_shared<Reading>();
  reading->answer = shared_from_this();
  reading->read = read;
  reading->data.resize(n);
  auto segment = std::ranges::upper_bound(segments_, offset, {}, &Segment::offset);
  if (segment != segments_.begin()) --segment;
  for (size_t done = 0; done < n; ++segment) {
    const uint64_t skip = offset + done - segment->offset;
    const size_t bytes = std::min<uint64_t>(n - done, segment->bytes - skip);
    reading->Add(*segment, skip, bytes, done);
    done += bytes;
  }
  if (reading->fetches.empty()) return read(std::string());
  reading->missing = reading->fetches.size();
  for (const Reading::Fetch& fetch : reading->fetches) {
    v1::ReadResultRequest ask;
    *ask.mutable_result() = requests_[fetch.part];
    ask.set_offset(fetch.offset);
    ask.set_bytes(static_cast<uint32_t>(fetch.bytes));
    result_->parts->Read(result_->manifest.parts[fetch.part], ask,
                         [reading, &fetch](const absl::StatusOr<v1::ReadResultResponse>& found) {
                           reading->Take(fetch, found);
                         });
  }
}

}  // namespace sparseagg
