// top: the server at a glance, live in a terminal.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/admin_client.h"
#include "client/cli/command.h"
#include "client/cli/commands/command_list.h"
#include "client/cli/output.h"
#include "client/cli/tensor_spec.h"
#include "client/cli/top_screen.h"

namespace sparseagg::cli {
namespace {

struct TopFlags {
  CommonFlags common;
  std::string admin = kDefaultAdmin;
  double interval_s = 1;
  bool once = false;
};

// Switches the terminal to its alternate screen and to reading single keys; the destructor restores
// it.
class FullScreen {
 public:
  FullScreen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);  // so that Ctrl-C is read as a key
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::fputs("\033[?1049h\033[?25l", stdout);
  }
  ~FullScreen() {
    std::fputs("\033[?25h\033[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Overwrites the previous frame, without flicker.
  static void Show(const std::string& frame) {
    std::string text = "\033[H";
    for (const char c : frame) c == '\n' ? text.append("\033[K\r\n") : text.append(1, c);
    text += "\033[J";
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  // Waits. Returns true if a key ends the program.
  static bool WaitForQuit(double seconds) {
    constexpr char kCtrlC = 3;
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, static_cast<int>(std::ceil(seconds * 1000))) <= 0) return false;
    char key = 0;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == kCtrlC;
  }

 private:
  termios before_ = {};
};

Screen ScreenNow() {
  Screen screen;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    screen = {.columns = size.ws_col, .lines = size.ws_row - 1u, .colours = true};
  }
  return screen;
}

absl::StatusOr<std::string> Frame(const AdminClient& client, const Screen& screen) {
  SPARSEAGG_ASSIGN_OR_RETURN(const nlohmann::json status, client.GetJson("/api/status"));
  nlohmann::json rounds = {{"rounds", nlohmann::json::array()}};
  if (status.at("engine").is_object()) {
    SPARSEAGG_ASSIGN_OR_RETURN(rounds,
                               client.GetJson(absl::StrCat("/api/rounds?limit=", screen.lines)));
  }
  return DrawTop(status, rounds, screen);
}

absl::Status Top(const TopFlags& flags) {
  const AdminClient client(flags.admin);
  if (flags.common.json) {
    SPARSEAGG_ASSIGN_OR_RETURN(const nlohmann::json status, client.GetJson("/api/status"));
    PrintJson(status);
    return absl::OkStatus();
  }
  SPARSEAGG_ASSIGN_OR_RETURN(std::string frame, Frame(client, ScreenNow()));
  if (flags.once || isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    Print(frame);
    return absl::OkStatus();
  }
  const FullScreen terminal;
  while (true) {
    FullScreen::Show(frame);
    if (FullScreen::WaitForQuit(flags.interval_s)) return absl::OkStatus();
    const auto next = Frame(client, ScreenNow());
    frame =
        next.ok() ? *next : absl::StrCat("sparseagg: ", std::string(next.status().message()), "\n");
  }
}

}  // namespace

void AddTopCommand(CLI::App& app, const CliContext& context) {
  auto flags = std::make_shared<TopFlags>();
  CLI::App& top =
      *app.add_subcommand("top", "Show rates, memory and rounds of a server, live; q quits");
  AddAdminFlag(top, flags->admin);
  AddJsonFlag(top, flags->common);
  top.add_option("--interval", flags->interval_s, "Seconds between two frames")
      ->check(NumberIn(0.1, 3600))
      ->capture_default_str();
  top.add_flag("--once", flags->once, "Print one frame and end; the default without a terminal");
  SetBody(top, context, flags->common, [flags] { return Top(*flags); });
}

}  // namespace sparseagg::cli
