"""Every bound of duly in one place, each with its reason. Sizes are bytes unless the name says otherwise."""

from __future__ import annotations

FRAME_BYTES_MAX = (
    1 << 20
)  # decoding small containers can cost 70 times their bytes; larger things are artifacts
DEPTH_MAX = 32  # deep enough for any plan, shallow enough for every recursive reader
LEAF_BYTES_MAX = 65_535  # tlog-tiles writes an entry's length in two bytes
ARTIFACT_BYTES_MAX = 64 << 20  # what one tool may return; more is cut off at the host
REQUEST_TEXT_BYTES_MAX = (
    64 << 10
)  # a request is read by a person; a megabyte is data and belongs in an input part
REQUEST_PARTS_MAX = 16  # what fits into one review
STEPS_MAX = 2_000  # a plan that a person approves; benchmark chains have 1,000
SEGMENT_STEPS_MAX = 100  # dispatched with one flush and one message; a crash repeats at most these reads
IDENTIFIER_CHARS_MAX = 128  # ids appear in file names, keys and 80-column tables
LMDB_KEY_BYTES_MAX = 511  # LMDB's own

ATTEMPTS_PER_STEP_MAX = 5  # whatever a contract says
REPLANS_FEEDBACK_MAX = 3  # a person may send a plan back this often
REPLANS_STEP_FAILURE_MAX = 2  # a third plan that fails the same way is no plan
REPLANS_VERIFICATION_MAX = 2  # more tries would be search for a plan that happens to pass
DRAFTS_PER_PLAN_MAX = 3  # attempts of a model at one plan

TOOL_TIMEOUT_SECONDS_MAX = 3_600  # longer work belongs to a job system that a tool starts and asks
TOOL_TIMEOUT_SECONDS_DEFAULT = 60  # a query that a person would wait for
GRANT_TTL_SECONDS = 300  # clocks of one cluster differ by less; later replays are refused by age alone
MANDATE_TTL_SECONDS = 30 * 24 * 3_600  # waiting is durable; a month-old order wants a fresh look

STEPS_DEFAULT = 15  # a silent agent adds nothing to the routing score
TOOL_CALLS_DEFAULT = 60  # four tries for each step of the default budget
WALL_SECONDS_DEFAULT = 600  # active time; waiting for a person costs none
MODEL_TOKENS_DEFAULT = 200_000  # a dozen drafts and reviews with full context
ROWS_SCANNED_DEFAULT = 100_000_000  # minutes of an embedded engine on two cores
COST_DEFAULT = 1_000_000  # millionths of the currency unit
BUDGET_WARNING_PERCENT = 80  # leaves room to finish smaller instead of stopping

EXECUTOR_SLOTS = 50  # calls an executor keeps in flight at once
CONCURRENT_CALLS_PER_WORKER_MAX = 64  # threads of one shared worker

PACKAGE_FILE_BYTES_MAX = 1 << 20  # a semantics file or playbook is written by hand
PREDICATE_VALUES_MAX = 1_000  # a list in a definition; a longer one is a table to join
