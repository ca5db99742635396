"""Bugs of mutations.py in the task service."""

from mutation import Checker, Mutation

TASKS = Checker("service_tasks_tasks_test")
TASK_SIMULATION = Checker("sim_task_sim_test")
TASK_CALLS, TASK_ROWS = (
    Checker(f"fuzz_{name}", (f"tests/fuzz/corpus/{name}",), (("SPARSEAGG_FUZZ_RUNS", "50000"),))
    for name in ("task_calls", "task_rows")
)

TRANSITIONS = "service/tasks/task_transitions.cc"
SERVICE = "service/tasks/tasks.cc"
TABLE = "service/tasks/task_table.cc"
CREATE = "service/tasks/create_tasks.cc"
WORK = "service/tasks/work_on_tasks.cc"

TASK_MUTATIONS = (
    Mutation(
        "a task's token is not compared",
        (
            (
                TRANSITIONS,
                "task.state == TaskState::kLeased && task.token == token",
                "task.state == TaskState::kLeased",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "a lease does not end at its time",
        (
            (
                TRANSITIONS,
                "if (lease_ends_.empty() || lease_ends_.begin()->first > now.lease_ms) break;",
                "if (lease_ends_.empty() || lease_ends_.begin()->first >= now.lease_ms) break;",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "an update that was counted before the lease ended does not complete its task",
        ((TRANSITIONS, "if (CompleteIfCounted(id, now)) continue;", ""),),
        TASK_SIMULATION,
    ),
    Mutation(
        "a task whose update was counted after the lease is handed out again",
        (
            (
                TRANSITIONS,
                "if (!CompleteIfCounted({&group, number}, now)) return number;",
                "if (now.lease_ms > -1) return number;",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "a deadline is ignored",
        ((TRANSITIONS, "CancelAll(group, TaskEnd::kDeadline, now);", "(void)group;"),),
        TASKS,
    ),
    Mutation(
        "tokens begin again with each start",
        (
            (
                SERVICE,
                "table_.StartTokensAt(first + 1);",
                "table_.StartTokensAt(0 * first + 1);",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "two leases have the same token",
        ((TRANSITIONS, "task.token = next_token_++;", "task.token = next_token_;"),),
        TASK_CALLS,
    ),
    Mutation(
        "a damaged task group is not named",
        (
            (
                "service/tasks/recover_tasks.cc",
                "recovery.damaged_groups.assign(found.damaged_groups.begin(), found.damaged_groups.end());",
                "",
            ),
        ),
        TASK_ROWS,
    ),
    Mutation(
        "attempts are not counted",
        ((TRANSITIONS, "++task.attempts;", ""),),
        TASKS,
    ),
    Mutation(
        "a lease that was handed back counts as an attempt",
        ((TRANSITIONS, "if (args.handed_back && task.attempts > 0) --task.attempts;", ""),),
        TASKS,
    ),
    Mutation(
        "the end of a round leaves its tasks",
        ((SERVICE, "table_.CancelAll(*group, TaskEnd::kRoundClosed, pending.now);", ""),),
        TASKS,
    ),
    Mutation(
        "the request id of an acquisition is ignored",
        (
            (
                TRANSITIONS,
                "if (!acquired.tasks.empty()) return acquired;",
                "acquired.tasks.clear();",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "a request id creates tasks of another content",
        (
            (
                CREATE,
                "SPARSEAGG_RETURN_IF_ERROR(CheckRequest(args, digest, groups));",
                "if (groups.empty()) SPARSEAGG_RETURN_IF_ERROR(CheckRequest(args, digest, groups));",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "the row of a changed task is not written",
        (
            (
                SERVICE,
                "rows.push_back({TaskRowKey(id.group->info().name, id.number), WriteTask(id.record())});",
                "",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "a task keeps a change that could not be stored",
        (
            (
                TABLE,
                "for (auto& [id, record] : changed_) {",
                "for (auto& [id, record] : changed_) {\n    if (id == changed_.begin()->first) continue;",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "the clock of leases begins again with each start",
        ((SERVICE, "clock_base_ms_ + running.count()", "running.count()"),),
        TASK_SIMULATION,
    ),
    Mutation(
        "the digest of a receipt is not compared",
        (
            (
                WORK,
                "if (receipt.digest == counted->digest) return absl::OkStatus();",
                "return absl::OkStatus();",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "a worker may use the lease of another",
        (
            (
                WORK,
                "return id.record().token != token ||",
                "return true || id.record().token != token ||",
            ),
        ),
        TASKS,
    ),
    Mutation(
        "workers that wait come back all at the same time",
        (("service/tasks/poll_pacer.h", "next_slot_ = slot + interval_;", "next_slot_ = slot;"),),
        TASKS,
    ),
)
