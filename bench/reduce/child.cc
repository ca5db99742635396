#include "bench/reduce/child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace sparseagg::bench {
namespace {

Row Skipped(const std::string& why) { return {{"skipped", why}}; }

// When memory runs out, this process ends and no other.
void OfferToDie() { std::ofstream("/proc/self/oom_score_adj") << "1000"; }

[[noreturn]] void RunChild(int to_parent, const std::function<Row()>& measure) {
  OfferToDie();
  std::string text;
  try {
    text = measure().dump();
  } catch (const std::bad_alloc&) {
    text = Skipped("not enough memory").dump();
  } catch (const std::exception& error) {
    text = Skipped(error.what()).dump();
  }
  const char* at = text.data();
  size_t left = text.size();
  while (left > 0) {
    const ssize_t written = write(to_parent, at, left);
    if (written <= 0) _exit(1);
    at += written;
    left -= static_cast<size_t>(written);
  }
  std::fflush(nullptr);
  _exit(0);  // no destructors: what the parent shares with us is the parent's
}

// A line of /proc/self/status, in kB.
uint64_t StatusBytes(const char* key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.compare(0, std::strlen(key), key) == 0) {
      return std::strtoull(line.c_str() + std::strlen(key), nullptr, 10) * 1024;
    }
  }
  return 0;
}

}  // namespace

Row InChild(const std::function<Row()>& measure) {
  int ends[2];
  if (pipe(ends) != 0) return Skipped("no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return Skipped("cannot fork");
  if (child == 0) {
    close(ends[0]);
    RunChild(ends[1], measure);
  }
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t bytes = 0; (bytes = read(ends[0], piece, sizeof(piece))) > 0;) {
    text.append(piece, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return Skipped(signal == SIGKILL ? "killed: the machine's memory was used up"
                                     : absl::StrCat("died by signal ", signal));
  }
  Row row = Row::parse(text, nullptr, /*allow_exceptions=*/false);
  return row.is_object() ? row : Skipped("the child said nothing");
}

uint64_t ResidentBytes() { return StatusBytes("VmRSS:"); }

uint64_t PeakResidentBytes() { return StatusBytes("VmHWM:"); }

void ResetPeak() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets the peak of the resident set
}

}  // namespace sparseagg::bench
