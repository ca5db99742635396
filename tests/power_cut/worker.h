// The program whose disk is cut: it uses the durable store as the server does, and notes what was
// acknowledged. Runs in a process of its own under io_recorder.cc.
#ifndef SPARSEAGG_TESTS_POWER_CUT_WORKER_H_
#define SPARSEAGG_TESTS_POWER_CUT_WORKER_H_

#include <string>

#include "service/store/store.h"

namespace sparseagg::testing {

inline constexpr char kUpdatesRound[] = "rounds/updates";
inline constexpr char kResultRound[] = "rounds/result";
inline constexpr char kRetiredRound[] = "rounds/retired";
// Acknowledgements beside those of updates, which are the contributor's number.
inline constexpr char kPublishedAck[] = "published";
inline constexpr char kRetiredAck[] = "retired";
inline constexpr char kNotedAck[] = "noted";   // the details of kUpdatesRound are this word
inline constexpr char kEpochAck[] = "epoch ";  // and its number

// What contributor `id` sends; some are long enough for a file of their own.
std::string PayloadOf(const std::string& id);
std::string ResultOfRound();

// Updates whose payload comes in pieces.
inline constexpr int kPartials = 6;
PartialIdentity PartialOf(int number);

// Opens the rounds; not recorded.
bool PrepareStore(const std::string& folder);

// "put": several threads put updates of kUpdatesRound, each twice over, one puts some in pieces,
// and one goes through the lives of kResultRound and kRetiredRound. "resend": every update that is
// there is sent again. Returns the exit code.
int RunWorker(const std::string& folder, const std::string& mode);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_POWER_CUT_WORKER_H_
