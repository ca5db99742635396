"""Bugs of mutations.py in trees of servers and their partial aggregates."""

from mutation import Checker, Mutation

TREES = Checker("sim_tree_sim_test", environment=(("SPARSEAGG_TREE_SIM_SEEDS", "400"),))
SILENCE = Checker("service_tree_tree_silence_test")
PARTIALS = Checker("service_engine_partial_partial_rounds_test")

SEAL = "service/tree/seal_rounds.cc"
LEAF = "service/tree/leaf_work.cc"
DIVIDE = "service/tree/owners/divide_rounds.cc"
TRANSFER = "service/tree/receive_partial.cc"

TREE_MUTATIONS = (
    Mutation(
        "a root that starts again opens a round anew at a leaf that has lost it",
        (
            (
                "service/tree/tree_rounds.cc",
                "state.created = round->row.opened;",
                "state.created = false;",
            ),
        ),
        TREES,
    ),
    Mutation(
        "a leaf that is sealed counts before its partial aggregate is there",
        (
            (
                SEAL,
                "    if (IsCounted(round, leaf.id)) continue;\n    Backoff::Time since;",
                "    if (IsCounted(round, leaf.id) || StateOf(round, leaf.id).sealed) continue;\n    Backoff::Time since;",
            ),
        ),
        TREES,
    ),
    Mutation(
        "a leaf that is silent for a moment is given up",
        (
            (
                SEAL,
                "wait.has_value() && now - since >= *wait;",
                "wait.has_value() && now - since >= *wait / 5000;",
            ),
        ),
        TREES,
    ),
    Mutation(
        "a leaf that publishes is silent",
        (
            (
                LEAF,
                "    if (!is_published || !now.sealed.has_value()) now.silent_since = when;\n",
                "    if (!now.sealed.has_value()) now.silent_since = when;\n",
            ),
        ),
        SILENCE,
    ),
    Mutation(
        "a leaf that waits for the root is silent",
        (
            (
                SEAL,
                "const bool is_awaited = !state.queued.has_value() &&",
                "const bool is_awaited =",
            ),
        ),
        SILENCE,
    ),
    Mutation(
        "a leaf is silent while its root is down",
        (
            (
                "service/tree/tree_rounds.cc",
                "    state.silent_since = options_.steady_now();\n",
                "    state.silent_since = {};\n",
            ),
            (
                SEAL,
                "    for (auto& [leaf, state] : round.leaves) state.silent_since = options_.steady_now();\n    row.sealing",
                "    row.sealing",
            ),
        ),
        SILENCE,
    ),
    Mutation(
        "a root ends a round of the name that others have at a leaf",
        ((LEAF, "  return is_foreign;\n", "  return false;\n"),),
        SILENCE,
    ),
    Mutation(
        "a leaf is given up although the round has no leaf_wait",
        (
            (
                SEAL,
                "is_late = is_silent || (wait.has_value() && is_useless);",
                "is_late = is_silent || is_useless;",
            ),
            (
                SEAL,
                "  if (!own->spec.policy.leaf_wait.has_value()) {\n    if (const std::string why",
                "  if (false) {\n    if (const std::string why",
            ),
        ),
        TREES,
    ),
    Mutation(
        "a leaf that was silent keeps its part of a deleted round",
        ((LEAF, "if (!erased.ok() && !absl::IsNotFound(erased)) return Repeat();", ""),),
        TREES,
    ),
    Mutation(
        "a leaf that has lost its round is asked for ever",
        (
            (
                LEAF,
                "  if (is_lost) {\n    WakeTick(round);",
                "  if (false) {\n    WakeTick(round);",
            ),
            (LEAF, 'state.lost = "has no longer the round";', ""),
        ),
        TREES,
    ),
    Mutation(
        "a transfer that broke off begins at its start again",
        (
            (
                TRANSFER,
                "return upload->committed_offset();",
                "return 0;",
            ),
        ),
        TREES,
    ),
    Mutation(
        "a leaf takes the updates of other leaves",
        (
            (
                "service/engine/round_tree.cc",
                "if (leaf.id == tree.self && !is_partial) return absl::OkStatus();",
                "if (!tree.self.empty() && !is_partial) return absl::OkStatus();",
            ),
        ),
        TREES,
    ),
    Mutation(
        "an owner publishes its rows before all leaves are counted",
        (
            (
                "service/tree/owners/owned_parts.cc",
                "std::ranges::all_of(tree.leaves, [&](const Leaf& leaf) { return IsCounted(round, leaf.id); });",
                "std::ranges::any_of(tree.leaves, [&](const Leaf& leaf) { return IsCounted(round, leaf.id); });",
            ),
        ),
        TREES,
    ),
    Mutation(
        "a leaf that is given up owns rows",
        (
            (
                DIVIDE,
                "if (counted.has_value() && counted->update_id != kGivenUpId) leaves.push_back(leaf);",
                "if (counted.has_value()) leaves.push_back(leaf);",
            ),
        ),
        TREES,
    ),
    Mutation(
        "the parts of a deleted round stay at their owners",
        (
            (
                DIVIDE,
                "if (!IsSilence(ended)) ended = Note(round, leaf, link->Delete(name));",
                "",
            ),
        ),
        TREES,
    ),
    Mutation(
        "an owner waits without end for a leaf that only the root reaches",
        (
            (
                "service/tree/owners/owned_parts.cc",
                "    EndIfLate(round);  // of all",
                "    // of all",
            ),
        ),
        Checker("service_tree_owners_test"),
    ),
    Mutation(
        "an owner that has lost its round is not given it again",
        ((DIVIDE, "if (absl::IsNotFound(there.status())) now.part = {};", ""),),
        TREES,
    ),
    Mutation(
        "a partial aggregate counts contributors who are counted already",
        (
            (
                "service/engine/round/round.cc",
                "SPARSEAGG_RETURN_IF_ERROR(\n"
                "      covered_.CheckDisjoint(update.record.contributor, update.partial->covered, is_counted));",
                "",
            ),
        ),
        PARTIALS,
    ),
    Mutation(
        "a block of a partial aggregate is not compared with its canonical form",
        (("sparse/partials/blocks.cc", "if (again != begin", "if (false && again != begin"),),
        PARTIALS,
    ),
)
