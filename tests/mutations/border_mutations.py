"""Bugs of mutations.py in joined runs, bitmaps, segments, batches and windows: the border suite must catch them."""

from mutation import Checker, Mutation

BORDERS = Checker("borders_backends_test")

JOINED_BITS = "cpu/dense/joined_bits.h"
PACKED_ROWS = "sparse/rows/packed_rows.cc"
DENSE_NARROW = "cpu/dense/dense_plan_narrow.cc"
SPARSE_REDUCTION = "cpu/windowed/sparse_reduction.cc"

BORDER_MUTATIONS = (
    Mutation(
        "a bitmap that begins at the last row of those before is joined to them",
        (
            (
                JOINED_BITS,
                "if (at < size_ || size > kRowsMax) return false;",
                "if (size > kRowsMax) return false;",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "the last word of a joined bitmap is left out where it is half a word of a kernel",
        (
            (
                JOINED_BITS,
                "if (words == 1) pending |= uint64_t{LoadAs<uint32_t>(in)} << at % 8;",
                "",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "a full block belongs to a run that ends at its first row",
        (
            (
                PACKED_ROWS,
                "if (next.form() != 0 || next.first != row) break;",
                "if (next.form() != 0) break;",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "differences of one bit end a bitmap as if their last byte was whole",
        ((PACKED_ROWS, "kBitmapTable.sizes[byte] - (8 - left);", "kBitmapTable.sizes[byte];"),),
        BORDERS,
    ),
    Mutation(
        "a bitmap is added whole, and again, where a slice ends within it",
        (
            (
                "cpu/dense/dense_plan_packed.cc",
                "bits->first >= range.begin && bits->last < range.end) {",
                "bits->first >= range.begin) {",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "a segment's first row belongs to the segment before",
        (
            (
                "sparse/rows/narrow_rows.cc",
                "if (static_cast<uint64_t>(IndexAt<Index>(from, middle)) < row) {",
                "if (static_cast<uint64_t>(IndexAt<Index>(from, middle)) <= row) {",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "the first row of a slice is left out where rows are narrow",
        (
            (
                DENSE_NARROW,
                "std::lower_bound(part.rows, end, above);",
                "std::upper_bound(part.rows, end, above);",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "a second batch of narrow rows empties the cells of the first",
        (
            (
                DENSE_NARROW,
                "const bool first = MarkOccupied(s);",
                "const bool first = MarkOccupied(s) || true;",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "a batch forgets the state of those before",
        (
            (
                "cpu/windowed/sparse_plan.cc",
                "*ReduceSparse(spec_, kernels_, parallel_, feed, batch, state_, {});",
                "*ReduceSparse(spec_, kernels_, parallel_, feed, batch, CellRun{}, {});",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "an update's entry in the first row of a range of windows is left out",
        (
            (
                SPARSE_REDUCTION,
                "const uint64_t* at = std::lower_bound(cursor.row, cursor.end, begin);",
                "const uint64_t* at = std::upper_bound(cursor.row, cursor.end, begin);",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "the state's first row in a range of windows is left out",
        (
            (
                SPARSE_REDUCTION,
                "static_cast<size_t>(std::lower_bound(run.row, run.end, row) - run.row);",
                "static_cast<size_t>(std::upper_bound(run.row, run.end, row) - run.row);",
            ),
        ),
        BORDERS,
    ),
    Mutation(
        "entries are distributed: a window's first row belongs to the window before",
        (
            (
                "cpu/windowed/partition.h",
                "while (window < last && row >= begins_[window + 1]) ++window;",
                "while (window < last && row > begins_[window + 1]) ++window;",
            ),
        ),
        BORDERS,
    ),
)
