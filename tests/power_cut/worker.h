// The program of the power cut test: it uses the durable store as the server does and records what
// was acknowledged. It runs in a process of its own under io_recorder.cc.
#ifndef SPARSEAGG_TESTS_POWER_CUT_WORKER_H_
#define SPARSEAGG_TESTS_POWER_CUT_WORKER_H_

#include <string>

#include "service/store/store.h"

namespace sparseagg::testing {

inline constexpr char kUpdatesRound[] = "rounds/updates";
inline constexpr char kResultRound[] = "rounds/result";
inline constexpr char kRetiredRound[] = "rounds/retired";
// Acknowledgements other than those of updates, which are the contributor's number.
inline constexpr char kPublishedAck[] = "published";
inline constexpr char kRetiredAck[] = "retired";
// This word is stored as the details of kUpdatesRound.
inline constexpr char kNotedAck[] = "noted";
inline constexpr char kEpochAck[] = "epoch ";  // and its number

// Returns the payload of contributor `id`; some are long enough for a file of their own.
std::string PayloadOf(const std::string& id);
std::string ResultOfRound();

// The number of updates whose payload arrives in chunks.
inline constexpr int kPartials = 6;
PartialIdentity PartialOf(int number);

// Opens the rounds. This is not recorded.
bool PrepareStore(const std::string& folder);

// "put": several threads put updates of kUpdatesRound, each twice over, one puts some in pieces,
// and one goes through the lives of kResultRound and kRetiredRound. "resend": every update that is
// there is sent again. Returns the exit code.
int RunWorker(const std::string& folder, const std::string& mode);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_POWER_CUT_WORKER_H_
