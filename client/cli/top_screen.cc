#include "client/cli/top_screen.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output.h"

namespace sparseagg::cli {
namespace {

using nlohmann::json;

constexpr size_t kMeterWidth = 20;

// "12.3 k"; whole below 10,000.
std::string Count(double value) {
  const char* units[] = {"", " k", " M", " G", " T"};
  if (value < 10'000)
    return absl::StrFormat("%.*f", value == static_cast<int>(value) ? 0 : 1, value);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return absl::StrFormat("%.1f%s", value, units[unit]);
}

std::string Bytes(double value) { return FormatBytes(static_cast<uint64_t>(value)); }

std::string Seconds(double s) {
  if (s <= 0) return "-";
  if (s < 1e-3) return absl::StrFormat("%.0f us", s * 1e6);
  if (s < 1) return absl::StrFormat("%.1f ms", s * 1e3);
  if (s < 120) return absl::StrFormat("%.0f s", s);
  if (s < 7200) return absl::StrFormat("%.0f min", s / 60);
  return absl::StrFormat("%.0f h", s / 3600);
}

// Removes control characters, with which a server's text could move the cursor.
std::string Clean(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return text;
}

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? Clean(found->get<std::string>()) : "";
}

// Shortens a name in the middle, because its beginning and its end identify it.
std::string Shorten(const std::string& name, size_t columns) {
  if (name.size() <= columns) return name;
  const size_t end = columns / 2 - 1;
  return absl::StrCat(name.substr(0, columns - end - 3), "...", name.substr(name.size() - end));
}

double Number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// The last row of the history as an object.
json Latest(const json& status) {
  json latest = json::object();
  const json& history = status.at("history");
  if (history.at("rows").empty()) return latest;
  for (size_t i = 0; i < history.at("columns").size(); ++i) {
    latest[history.at("columns")[i].get<std::string>()] = history.at("rows").back()[i];
  }
  return latest;
}

class Canvas {
 public:
  explicit Canvas(const Screen& screen) : screen_(screen) {}

  bool full() const { return lines_ >= screen_.lines; }
  // `style` is an ANSI code for the whole line.
  void Line(std::string text, const char* style = "") {
    if (full()) return;
    if (text.size() > screen_.columns) text.resize(screen_.columns);
    const bool styled = screen_.colours && *style != '\0';
    absl::StrAppend(&text_, styled ? style : "", text, styled ? "\033[0m" : "", "\n");
    ++lines_;
  }
  std::string Take() { return std::move(text_); }

 private:
  const Screen screen_;
  size_t lines_ = 0;
  std::string text_;
};

constexpr char kBold[] = "\033[1m";
constexpr char kReverse[] = "\033[7m";
constexpr char kRed[] = "\033[31m";
constexpr char kGreen[] = "\033[32m";
constexpr char kCyan[] = "\033[36m";

const char* StyleOf(std::string_view state) {
  if (state == "OPEN") return kCyan;
  if (state == "PUBLISHED") return kGreen;
  return state == "ABORTED" ? kRed : "";
}

std::string Meter(const char* title, const json& use, bool bytes) {
  const double used = Number(use, "used");
  const double max = Number(use, "max");
  const double share = max > 0 ? std::min(used / max, 1.0) : 0;
  const auto filled = static_cast<size_t>(std::lround(share * kMeterWidth));
  const std::string bar = std::string(filled, '#') + std::string(kMeterWidth - filled, '.');
  return absl::StrFormat("%-12s [%s] %s of %s", title, bar, bytes ? Bytes(used) : Count(used),
                         bytes ? Bytes(max) : Count(max));
}

void DrawRates(const json& status, Canvas& canvas) {
  const json now = Latest(status);
  const json& totals = status.at("totals");
  canvas.Line(absl::StrFormat("updates %8s/s   payload %10s/s   entries %8s/s   refused %6s/s",
                              Count(Number(now, "updates_per_s")),
                              Bytes(Number(now, "bytes_per_s")), Count(Number(now, "nnz_per_s")),
                              Count(Number(now, "refused_per_s"))));
  canvas.Line(
      absl::StrFormat("in all  %8s     payload %10s     receipt after %s, 99 of 100 %s",
                      Count(Number(totals, "accepted")), Bytes(Number(totals, "payload_bytes")),
                      Seconds(Number(now, "submit_p50_s")), Seconds(Number(now, "submit_p99_s"))));
}

void DrawRefusals(const json& status, Canvas& canvas) {
  std::vector<std::pair<double, std::string>> reasons;
  for (const auto& [reason, number] : status.at("refusals").at("by_reason").items()) {
    reasons.emplace_back(number.get<double>(), Clean(reason));
  }
  if (reasons.empty()) return;
  std::sort(reasons.rbegin(), reasons.rend());
  std::string line = "refused";
  for (const auto& [number, reason] : reasons)
    absl::StrAppend(&line, "  ", reason, " ", Count(number));
  canvas.Line(line);
}

void DrawRounds(const json& rounds, double now_ms, Canvas& canvas) {
  canvas.Line(absl::StrFormat("%-28s %-10s %16s %10s %10s %-18s %8s", "ROUND", "STATE",
                              "CONTRIBUTORS", "ENTRIES", "RECEIVED", "PLAN", "AGE"),
              kReverse);
  for (const json& round : rounds.at("rounds")) {
    if (canvas.full()) return;
    std::string name = Text(round, "name");
    if (name.starts_with("rounds/")) name = name.substr(7);
    std::string people = Count(Number(round, "contributors"));
    if (Number(round, "goal") > 0) absl::StrAppend(&people, " of ", Count(Number(round, "goal")));
    const std::string state = Text(round, "state");
    canvas.Line(absl::StrFormat(
                    "%-28s %-10s %16s %10s %10s %-18.18s %8s", Shorten(name, 28), state, people,
                    Count(Number(round, "nnz")), Bytes(Number(round, "bytes")), Text(round, "plan"),
                    Seconds(std::max(1.0, (now_ms - Number(round, "create_time")) / 1000))),
                StyleOf(state));
  }
}

}  // namespace

std::string DrawTop(const json& status, const json& rounds, const Screen& screen) {
  Canvas canvas(screen);
  const json& engine = status.at("engine");
  const double now_ms = Number(status, "now");
  std::string head = absl::StrCat("sparseagg ", Text(status, "version"), "  ",
                                  Text(status, "phase"), "  ", Text(status, "listen"), "  up ",
                                  Seconds((now_ms - Number(status, "start_time")) / 1000));
  if (engine.is_object()) {
    absl::StrAppend(&head, "  ", Text(engine.at("backend"), "name"), " (",
                    Text(engine.at("backend"), "description"), ")");
  }
  canvas.Line(head, kBold);
  DrawRates(status, canvas);
  if (engine.is_object()) {
    canvas.Line(Meter("staging", engine.at("staging"), true));
    canvas.Line(Meter("aggregation", engine.at("aggregation"), true));
    canvas.Line(Meter("rounds", engine.at("rounds_use"), false));
  }
  DrawRefusals(status, canvas);
  canvas.Line("");
  DrawRounds(rounds, now_ms, canvas);
  return canvas.Take();
}

}  // namespace sparseagg::cli
