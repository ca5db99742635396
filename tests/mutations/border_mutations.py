"""Bugs of mutations.py in blocks, bitmaps, segments, batches and windows: the border suite must catch them."""

from mutation import Checker, Mutation

BORDERS = Checker("borders_backends_test")

DENSE_PACKED = "cpu/dense/dense_plan_packed.cc"
PACKED_ROWS = "sparse/rows/packed_rows.cc"
DENSE_NARROW = "cpu/dense/dense_plan_narrow.cc"
SPARSE_REDUCTION = "cpu/windowed/sparse_reduction.cc"

BORDER_MUTATIONS = (
    Mutation(
        "a block that begins before a slice is left out of it",
        ((PACKED_ROWS, "return begin == 0 ? 0 : begin - 1;", "return begin;"),),
        BORDERS,
    ),
    Mutation(
        "an entry in the first row of a slice is left out of a block that begins before it",
        (
            (
                DENSE_PACKED,
                "std::lower_bound(std::as_const(rows).data(), end, range.begin);",
                "std::upper_bound(std::as_const(rows).data(), end, range.begin);",
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
                DENSE_PACKED,
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
