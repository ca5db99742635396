// Runs a fuzz target without libFuzzer: every file of a corpus, then seeded mutations of them. The
// same corpus and seed give the same inputs. An input that ends the process is written to
// ./fuzz_failure.
//
//   fuzz_X FOLDER...          SPARSEAGG_FUZZ_RUNS (5000), SPARSEAGG_FUZZ_SEED (1)
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/support/effort.h"

namespace {

namespace fs = std::filesystem;

constexpr size_t kBytesMax = 4096;

// The input that is being run, for the handler.
const std::string* current = nullptr;

void SaveInput(int signal_number) {
  const int file = open("fuzz_failure", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file >= 0 && current != nullptr) {
    [[maybe_unused]] const ssize_t written = write(file, current->data(), current->size());
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void Run(const std::string& input) {
  current = &input;
  // A copy of exactly its size: sanitizers see a read past its end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> ReadCorpus(int argc, char** argv) {
  std::vector<fs::path> paths;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : fs::directory_iterator(argv[i])) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

using Random = std::mt19937_64;

// Numbers at which arithmetic of lengths breaks.
void PutNumber(std::string& input, Random& random) {
  constexpr uint64_t kNumbers[] = {
      0,       1,          0x7F,       0x80,       0xFF,       0x7FFF,     0xFFFF,
      1 << 20, 0x7FFFFFFF, 0xFFFFFFFF, 1ull << 32, 1ull << 61, 1ull << 63, ~uint64_t{0},
  };
  const uint64_t number = kNumbers[random() % std::size(kNumbers)];
  const size_t bytes = size_t{1} << random() % 4;
  const size_t at = random() % input.size();
  std::memcpy(input.data() + at, &number, std::min(bytes, input.size() - at));
}

void Mutate(std::string& input, const std::vector<std::string>& corpus, Random& random) {
  if (input.empty()) {
    input.push_back(static_cast<char>(random()));
    return;
  }
  const size_t at = random() % input.size();
  switch (random() % 7) {
    case 0:
      input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
      break;
    case 1:
      input[at] = static_cast<char>(random());
      break;
    case 2:
      PutNumber(input, random);
      break;
    case 3:
      input.erase(at, 1 + random() % 16);
      break;
    case 4:
      input.insert(at, input.substr(random() % input.size(), 1 + random() % 32));
      break;
    case 5:
      input.resize(at);
      break;
    default: {
      const std::string& other = corpus[random() % corpus.size()];
      if (!other.empty()) input.replace(at, std::string::npos, other, random() % other.size());
    }
  }
  if (input.size() > kBytesMax) input.resize(kBytesMax);
}

}  // namespace

int main(int argc, char** argv) {
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) signal(number, SaveInput);
  const std::vector<std::string> corpus = ReadCorpus(argc, argv);
  if (corpus.empty()) {
    std::cerr << "no corpus in the folders of the command line\n";
    return 1;
  }
  for (const std::string& input : corpus) Run(input);
  const int runs = sparseagg::testing::Effort("SPARSEAGG_FUZZ_RUNS", 5000);
  Random random(static_cast<uint64_t>(sparseagg::testing::Effort("SPARSEAGG_FUZZ_SEED", 1)));
  for (int run = 0; run < runs; ++run) {
    std::string input = corpus[random() % corpus.size()];
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) Mutate(input, corpus, random);
    Run(input);
  }
  std::cout << corpus.size() << " inputs of the corpus and " << runs << " mutations\n";
  return 0;
}
