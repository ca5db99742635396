"""Bugs that a checker must catch: the code with the bug in it, and the test that has to fail then.

A bug is one or more edits; each text stands exactly once in its file, which a test of the default suite checks. A checker
that lets its bug live is worth nothing: `./dev mutations` puts every bug in and runs its checker.
"""

from border_mutations import BORDER_MUTATIONS
from mutation import Checker, Mutation
from task_mutations import TASK_MUTATIONS
from tree_mutations import TREE_MUTATIONS


def fuzz(target: str) -> Checker:
    """A fuzz target over its corpus and mutations of it."""
    return Checker(
        f"fuzz_{target}", (f"tests/fuzz/corpus/{target}",), (("SPARSEAGG_FUZZ_RUNS", "50000"),)
    )


POWER_CUT = Checker("power_cut_test", ("--gtest_fail_fast",))
FAILPOINTS = Checker("failpoint_test", ("--gtest_fail_fast",))
INTERLEAVINGS = Checker("failpoints_interleaving_test")
SIMULATION = Checker("sim_sim_test", environment=(("SPARSEAGG_SIM_SEEDS", "2000"),))
STORE = Checker("service_store_store_test")
DURABLE_STORE = Checker("service_store_durable_store_test")
UPLOAD = Checker("service_engine_upload_test")
DATA_DIRECTORY = Checker("service_store_data_directory_test")
NOT_EXACT = Checker("service_engine_not_exact_test")
SUBMIT = Checker("service_engine_submit_test")

DURABLE = "service/store/durable_store.cc"
READER = "service/store/store_reader.cc"
DIRECTORY = "service/store/files/data_directory.cc"
REDUCERS = "service/engine/ingest/tensor_reducers.cc"
TABLES = "service/store/tables.cc"
PUT_GROUP = "service/store/put_group.cc"
SCHEMA = "service/store/schema.cc"
FILES = "service/store/files/payload_files.cc"
ROUND = "service/engine/round/round.cc"
ENGINE = "service/engine/engine.cc"

MUTATIONS = (
    # --- What is on the disk when an update is acknowledged ---
    Mutation(
        "acknowledged before the COMMIT",
        (
            (
                TABLES,
                'SPARSEAGG_RETURN_IF_ERROR(database_.Run("BEGIN IMMEDIATE"));',
                'database_.Run("COMMIT").IgnoreError(); SPARSEAGG_RETURN_IF_ERROR(database_.Run("BEGIN IMMEDIATE"));',
            ),
            (TABLES, 'if (status.ok()) status = database_.Run("COMMIT");', ""),
        ),
        FAILPOINTS,
    ),
    Mutation(
        "synchronous=NORMAL",
        (("service/store/database.cc", "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"),),
        POWER_CUT,
    ),
    Mutation(
        "payloads are not synced",
        ((FILES, "if (fdatasync(fd) != 0) return WriteError(path, errno);", ""),),
        POWER_CUT,
    ),
    Mutation(
        "the names of payloads are not synced",
        ((FILES, "if (fsync(fd_) != 0) EndProcess(folder_, std::strerror(errno));", ""),),
        POWER_CUT,
    ),
    Mutation(
        # Either the commit of the start's number or the checkpoint would do.
        "what a killed server left in the page cache is acknowledged again without a sync",
        (
            (
                "service/store/begin_epoch.cc",
                "emptied = tables.Checkpoint();",
                "emptied = absl::OkStatus();",
            ),
            (
                DURABLE,
                "  SPARSEAGG_RETURN_IF_ERROR(options_.new_epoch ? BeginEpoch",
                '  SPARSEAGG_RETURN_IF_ERROR(database_->Run("PRAGMA synchronous=OFF"));\n'
                "  SPARSEAGG_RETURN_IF_ERROR(options_.new_epoch ? BeginEpoch",
            ),
            (
                DURABLE,
                "  files_->Sync();\n  SyncFolder",
                '  SPARSEAGG_RETURN_IF_ERROR(database_->Run("PRAGMA synchronous=FULL"));\n'
                "  files_->Sync();\n  SyncFolder",
            ),
        ),
        POWER_CUT,
    ),
    Mutation(
        "a failed transaction is not rolled back",
        ((TABLES, "database_.Rollback();\n    return status;", "return status;"),),
        FAILPOINTS,
    ),
    # --- Counted once ---
    Mutation(
        "neither a look at the books nor a unique key when a group is committed",
        (
            (PUT_GROUP, "if (AnswerFrom(*round.accepted, put)) return;", ""),
            (SCHEMA, "CREATE UNIQUE INDEX contributors", "CREATE INDEX contributors"),
        ),
        STORE,
    ),
    Mutation(
        "a resend is folded in again",
        (
            (
                ROUND,
                "if (stored->outcome == PutOutcome::kDuplicate) return stored;",
                "",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "the digest of a resend is not compared",
        (
            (
                "service/store/accepted_updates.cc",
                "if (stored.digest != record.digest) {",
                "if (false) {",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "the update_id of a resend is not compared",
        (
            (
                "service/store/accepted_updates.cc",
                "if (stored.update_id != record.update_id) {",
                "if (false) {",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "the cut is not atomic: a seal passes an update that is being counted",
        (
            (
                ROUND,
                "std::shared_lock commit(gate_, std::defer_lock);",
                "CommitGate mine;\n  std::shared_lock commit(mine, std::defer_lock);",
            ),
        ),
        INTERLEAVINGS,
    ),
    # --- After a crash ---
    Mutation(
        "a sealed round is forgotten by the recovery",
        (
            (
                ENGINE,
                "for (const RoundRecord& record : store_.Rounds()) {",
                "for (const RoundRecord& record : store_.Rounds()) {\n"
                "    if (record.phase == RoundPhase::kClosed) continue;",
            ),
        ),
        FAILPOINTS,
    ),
    Mutation(
        "what a crash kept from being erased stays",
        (
            (
                DURABLE,
                "if (trusted && !HasUpdates(phase)) eraser_->AddLeftover({row.id, phase});",
                "if (false) eraser_->AddLeftover({row.id, phase});",
            ),
        ),
        FAILPOINTS,
    ),
    Mutation(
        "files that no row names stay",
        (
            (
                "service/store/files/partial_files.cc",
                "for (const uint64_t number : unnamed) files_.Delete(number);",
                "",
            ),
        ),
        FAILPOINTS,
    ),
    Mutation(
        "a full disk in the middle of erasing is an error of the deletion",
        (
            (
                "service/engine/round/round_ending.cc",
                "    services_.eraser.Post([&store = services_.store] {\n"
                "      store.EraseLeftovers().IgnoreError();  // maintenance tries again what fails now\n"
                "    });\n",
                "    SPARSEAGG_RETURN_IF_ERROR(services_.store.EraseLeftovers());\n",
            ),
        ),
        SIMULATION,
    ),
    # --- Damage is found ---
    Mutation(
        "the checksum of a payload is not compared",
        (
            (
                TABLES,
                "if (bytes.size() != content.bytes ||\n"
                "      ContentChecksum(content.id, content.headers, content.bytes, content.file, "
                "Crc32c(bytes)) !=\n          content.crc32c) {",
                "if (bytes.size() != content.bytes) {",
            ),
        ),
        fuzz("store_rows"),
    ),
    Mutation(
        "the checksum of an update's row is not compared",
        (
            (
                TABLES,
                "if (ChecksumOf(round, update) != crc32c) return Damaged(NameOf(update));",
                "if (ChecksumOf(round, update) == -1) return Damaged(NameOf(update));",
            ),
        ),
        fuzz("store_rows"),
    ),
    Mutation(
        "a missing update is not noticed",
        ((READER, "gapless &= update.sequence", "gapless |= update.sequence"),),
        DURABLE_STORE,
    ),
    # --- Retention and memory ---
    Mutation(
        "rounds are deleted after half of their retention",
        (
            (
                ENGINE,
                "options_.now() - since >= retention)",
                "options_.now() - since >= retention / 2)",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "the memory of an update is not given back",
        (
            (
                "service/engine/memory/admission.cc",
                "if (admission_ != nullptr) admission_->Release(bytes_);",
                "",
            ),
        ),
        SUBMIT,
    ),
    Mutation(
        "watchers are not told of a deletion",
        ((ENGINE, "round.NotifyDeleted();", ""),),
        SIMULATION,
    ),
    # --- A data directory that is deleted or swapped ---
    Mutation(
        "a group is committed although the store's files are no longer those of the directory",
        ((TABLES, "check_in_place_();", ""),),
        DATA_DIRECTORY,
    ),
    Mutation(
        "a duplicate is answered although the store's files are no longer those of the directory",
        (
            (
                DURABLE,
                "directory_->CheckStillPresent();\n    return *std::move(known);",
                "return *std::move(known);",
            ),
        ),
        DATA_DIRECTORY,
    ),
    Mutation(
        "a file that another one has replaced counts as the same",
        ((DIRECTORY, " || found.st_ino != pinned.inode", ""),),
        DATA_DIRECTORY,
    ),
    Mutation(
        "a file that is gone counts as the same",
        (
            (
                DIRECTORY,
                "for (const Pinned& pinned : pinned_) {\n    struct stat found = {};",
                "for (const Pinned& pinned : pinned_) {\n    struct stat found = {};\n"
                "    if (stat(pinned.path.c_str(), &found) != 0) continue;",
            ),
        ),
        DATA_DIRECTORY,
    ),
    Mutation(
        "the log and the payloads are not looked at, only the database",
        ((DURABLE, '{"store.db", "store.db-wal", "payloads"}', '{"store.db"}'),),
        DATA_DIRECTORY,
    ),
    # --- When a round ends ---
    Mutation(
        "a round below its minimum is published when its time is over",
        (
            (
                "service/engine/round_policy.cc",
                "if (contributors >= policy.min_contributors) return Closing::kSeal;",
                "if (contributors >= policy.min_contributors || reason == SealReason::kDeadline) "
                "return Closing::kSeal;",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "a full round waits for its grace",
        (
            (
                "service/engine/round_policy.cc",
                "policy.max_contributors != 0 && progress.contributors >= policy.max_contributors;",
                "false;",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "raw updates that a full disk kept from being erased stay after an abort",
        (
            (
                "service/engine/round/round_ending.cc",
                "  publisher_.ScheduleErasure();\n}\n\nvoid Round::Fail",
                "}\n\nvoid Round::Fail",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "bytes of a partial payload are believed without their checksum",
        (
            (
                "service/store/files/partial_files.cc",
                "if (crc32c != checkpoint.crc32c) return good;",
                "",
            ),
        ),
        POWER_CUT,
    ),
    Mutation(
        "a block that ends in the next visit is forgotten there",
        (("cpu/dense/dense_plan_packed.cc", "ClearUpTo(slice, bits.last + 1);", ""),),
        Checker("cpu_packed_updates_test"),
    ),
    Mutation(
        "rows that are added reach into cells that nobody has made empty yet",
        (
            (
                "cpu/dense/dense_plan_packed.cc",
                "slice.uncleared, slice.side);",
                "slice.rows.end, slice.side);",
            ),
        ),
        Checker("cpu_packed_updates_test"),
    ),
    Mutation(
        "results that lack one row list none",
        (
            (
                "cpu/windowed/ranged_output.cc",
                "starts.back() < spec_.layout.num_rows;",
                "starts.back() + 1 < spec_.layout.num_rows;",
            ),
        ),
        Checker("cpu_every_row_test"),
    ),
    Mutation(
        "the ends of a run tell of its rows, whether they repeat or not",
        (("cpu/kernels/scatter_values-inl.h", "cursor.canonical && at + kLast", "at + kLast"),),
        Checker("cpu_speculation_test"),
    ),
    Mutation(
        "a speculative window ignores that a sum was rounded",
        (("cpu/kernels/scatter_rows-inl.h", "return !AnyRounded();", "return true;"),),
        Checker("cpu_speculation_test"),
    ),
    Mutation(
        "what was added to a window speculatively stays there when it is summed again",
        (
            (
                "cpu/windowed/range_reducer.cc",
                "kernels_.clear(cells, window.end - window.begin, width_);",
                "",
            ),
        ),
        Checker("cpu_hostile_values_test"),
    ),
    Mutation(
        "after a failed speculation entries are left out",
        (
            (
                "cpu/windowed/range_reducer.cc",
                "if (exact) return true;\n  std::copy(saved_.begin(), saved_.end(), cursors.begin());",
                "if (exact) return true;",
            ),
        ),
        Checker("cpu_hostile_values_test"),
    ),
    Mutation(
        "a double that is even becomes odd in a direction that its own sign does not matter for",
        (
            (
                "cpu/kernels/settle-inl.h",
                "hn::Xor(bits, hn::BitCast(du, sum.low))",
                "hn::BitCast(du, sum.low)",
            ),
        ),
        Checker("cpu_error_cells_test"),
    ),
    Mutation(
        "two doubles are taken for the sum, whatever they leave over",
        (
            (
                "cpu/kernels/settle-inl.h",
                "hn::Not(hn::Or(known, ",
                "hn::Not(hn::Or(hn::Eq(size, size), ",
            ),
        ),
        Checker("cpu_error_cells_test"),
    ),
    Mutation(
        "a cell with side entries is rounded before they are added",
        (
            (
                "cpu/windowed/range_reducer.cc",
                "for (const SideEntry& entry : entries) side_.ExtractErrors(errors_, entry.row, entry.column);",
                "",
            ),
        ),
        Checker("cpu_error_cells_test"),
    ),
    Mutation(
        "a dense cell with side entries is rounded before they are added",
        (
            (
                "cpu/dense/dense_plan_results.cc",
                "if (errors != nullptr) moved.ExtractErrors(*errors, entry.row, entry.column);",
                "(void)errors;",
            ),
        ),
        Checker("cpu_error_cells_test"),
    ),
    Mutation(
        "a snapshot of dense cells is without what they have lost",
        (
            (
                "cpu/dense/dense_plan_results.cc",
                "for (const ErrorCells& errors : errors_) side.Append(errors);",
                "",
            ),
        ),
        Checker("cpu_error_cells_test"),
    ),
    Mutation(
        "what is left of a last line is not written",
        (("cpu/windowed/non_temporal_writer.cc", "std::copy_n(kept_.begin(), size_, to_);", ""),),
        Checker("cpu_non_temporal_writer_test"),
    ),
    Mutation(
        "a line that begins before the output is written from its begin on",
        (
            (
                "cpu/windowed/non_temporal_writer.cc",
                "std::copy_n(bytes.begin(), rest, to_);",
                "std::copy_n(bytes.begin(), rest, to_ - begun);",
            ),
        ),
        Checker("cpu_non_temporal_writer_test"),
    ),
    Mutation(
        "the last line of each range of a large result is forgotten",
        (("cpu/windowed/ranged_output.cc", "reducer.Finish();", ""),),
        Checker("cpu_large_results_test"),
    ),
    Mutation(
        "tiles of rows that are read together all have the bits of the first",
        (("cpu/kernels/scatter_bits-inl.h", ", bits >>= kTileRows) {", ") {"),),
        Checker("cpu_packed_updates_test"),
    ),
    Mutation(
        "keys with the same highest digits stay as they came",
        (("cpu/state/key_sort.cc", "    if (keys[i - 1] <= keys[i]) continue;", "    continue;"),),
        Checker("cpu_key_sort_test"),
    ),
    Mutation(
        "a stream that refuses its upload looks whether it is still its own, and then closes it",
        (
            (
                "service/engine/upload/upload.cc",
                "  std::lock_guard lock(mutex_);\n"
                "  if (phase_ == Phase::kReceiving && CheckWriterLocked(writer).ok()) CloseLocked(why);",
                "  {\n    std::lock_guard lock(mutex_);\n"
                "    if (phase_ != Phase::kReceiving || !CheckWriterLocked(writer).ok()) return;\n  }\n"
                "  Close(why);",
            ),
        ),
        Checker("service_engine_upload_takeover_test"),
    ),
    # --- What comes from outside ---
    Mutation(
        "a chunk may leave a gap of one byte",
        (
            (
                "service/engine/upload/upload.cc",
                "if (offset != committed_ || appending_) return",
                "if (offset > committed_ + 1 || appending_) return",
            ),
        ),
        SIMULATION,
    ),
    Mutation(
        "an index may be as large as its dimension",
        (
            (
                "sparse/rows/row_flags.h",
                "flags.out_of_range |= row | (highest - row);",
                "flags.out_of_range |= row | (highest + 1 - row);",
            ),
        ),
        fuzz("encoding"),
    ),
    Mutation(
        "values that are written with non-temporal stores are not checked",
        (
            (
                "sparse/streaming_x86_64.cc",
                "return _mm256_movemask_ps(_mm256_castsi256_ps(bad)) == 0;",
                "return true;",
            ),
        ),
        Checker("sparse_raw_values_test"),
    ),
    Mutation(
        "rows in no order are kept in two bytes each",
        (
            (
                "sparse/rows/narrow_rows.cc",
                "if (!now.all_in_range() || now.order() == EntryOrder::kUnsorted) return false;",
                "if (!now.all_in_range()) return false;",
            ),
        ),
        Checker("sparse_narrow_rows_test"),
    ),
    Mutation(
        "the length of a stored tensor is not checked",
        (
            (
                "service/engine/recovery/stored.cc",
                'if (nnz > bytes.size() / entry_bytes) return Damaged("result");',
                'if (entry_bytes == 0) return Damaged("result");',
            ),
        ),
        fuzz("stored_result"),
    ),
    Mutation(
        "an array may be shorter than its shape",
        (
            (
                "client/io/npy.cc",
                "if (!bytes.has_value() || *bytes != file.size() - array.data_begin) {",
                "if (!bytes.has_value()) {",
            ),
        ),
        fuzz("npy"),
    ),
    # --- Sums ---
    Mutation(
        "what the back end has added is not compared with what it was given",
        ((REDUCERS, "if (aggregate.addends != reducers_[i].addends) {", "if (false) {"),),
        NOT_EXACT,
    ),
    Mutation(
        "what was folded in is not compared with what was accepted",
        ((REDUCERS, "reducers_[i].entries == entries[i]", "true"),),
        NOT_EXACT,
    ),
    Mutation(
        "a weight of negative zero counts as the rest of a row",
        (("cpu/cpu_backend.cc", "std::fabs(weight)", "weight"),),
        Checker("conformance_conformance_test"),
    ),
    *BORDER_MUTATIONS,
    *TASK_MUTATIONS,
    *TREE_MUTATIONS,
)
