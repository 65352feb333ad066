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
REPLANS_BUDGET_MAX = (
    1  # a plan that was made to be small and is not small enough runs until the budget ends it
)
AMENDMENTS_MAX = 20  # a person may change their mind; beyond that it is another request
BREAKER_FAILURES = 5  # transient failures of one tool in a row; the next call would only wait for the same
PROBES_PER_STEP_MAX = 3  # a probe that crashes under each harness is no better than asking the person
CRITIC_TOKENS_MAX = 20_000  # objective, plan, report and evidence in slices; more is not read better
IMPORTED_RESULTS_MAX = 2_000  # results of an earlier run that a new one may use: a plan has no more steps
IMPORTED_PER_EVENT_MAX = 200  # their digests have to fit into one leaf
DRAFTS_PER_PLAN_MAX = 3  # attempts of a model at one plan

TOOL_TIMEOUT_SECONDS_MAX = 3_600  # longer work belongs to a job system that a tool starts and asks
TOOL_TIMEOUT_SECONDS_DEFAULT = 60  # a query that a person would wait for
GRANT_TTL_SECONDS = 300  # clocks of one cluster differ by less; later replays are refused by age alone
MANDATE_TTL_SECONDS = 30 * 24 * 3_600  # waiting is durable; a month-old order wants a fresh look

STEPS_DEFAULT = 15  # a silent agent adds nothing to the routing score
TOOL_CALLS_DEFAULT = 60  # four tries for each step of the default budget
WALL_SECONDS_DEFAULT = 600  # active time; waiting for a person costs none
MODEL_TOKENS_DEFAULT = 200_000  # a dozen drafts and reviews with full context
DRAFT_TOKENS_MAX = (
    150_000  # three attempts with the longest prompt (41 tools, about 34,000 tokens) and their answers
)
ARGUMENTS_TOKENS_MAX = 20_000  # one tool's schema, the step's inputs as samples, two attempts
REASON_TOKENS_MAX = 40_000  # a step's resolved inputs and its answer
TURN_TOKENS_MAX = 40_000  # one turn of a direct run with everything that happened before
DRAFT_FAULTS_TOLD_MAX = 50  # of a refused plan to the next attempt at it
DIRECT_TURNS_MAX = 12  # of a direct run, the answer among them; who needs more needs a plan
DIRECT_OBJECTIVE_CHARACTERS_MAX = 300  # of a call's reason in a direct run
MODEL_TEXT_BYTES_MAX = 400_000  # one text to a model; the context of large models ends in this order
MODEL_MESSAGES_MAX = 100  # a direct run's turns and their answers
MODEL_ANSWER_BYTES_MAX = 1_000_000  # of a server's whole answer; a plan of 200 steps has a tenth
MODEL_SECONDS_MAX = 300  # one call; a small model on two cores writes a plan in a minute or two
MODEL_NAMED_SECONDS_MAX = 10  # a model host that does not say which model it has by then has none
MODEL_RETRIES_MAX = 3  # of one call that failed for a passing reason: rate limit, outage, lost connection
MODEL_RETRY_AFTER_SECONDS_MAX = 30  # a server that asks for a longer pause is not waited for
MODEL_STRING_CHARS_MAX = 2_000  # one text of a model's answer; longer ones are referred to, not copied
MODEL_NAME_CHARS_MAX = 256  # a key, or a pointer into an output
MODEL_LIST_ITEMS_MAX = 100  # a list that a model writes; a longer one is data of a step
MODEL_ENUM_ENTRIES_MAX = 250  # strict structured output of a large vendor ends at a thousand in all
MODEL_SCHEMA_DEPTH_MAX = (
    5  # of one tool's arguments; with the plan around them they stay under a vendor's ten
)
MODEL_SCHEMA_BYTES_MAX = 60_000  # a larger schema costs seconds to compile into a grammar, at every call
MODEL_SCHEMA_PROPERTIES_MAX = 1_000  # a fifth of what the strictest vendor takes
PLAYBOOK_SLOTS_MAX = 8  # texts and numbers of one request that may be others the next time
PLAYBOOK_SLOT_CHARS_MAX = 100  # one of them: a name, an id, a place; no paragraph
MODEL_PLAN_STEPS_MAX = 30  # steps that a model may plan at once; a person has to read them
MODEL_PLAN_CHECKS_MAX = 6  # checks of its own that a model may add to a step
MODEL_ATTEMPTS_MAX = 2  # at arguments, a turn or a reason step; a plan has three
MODEL_SLICE_BYTES_MAX = 160_000  # what one call is given beside its prompt; some 40,000 tokens
MODEL_TOOLS_BYTES_MAX = 80_000  # descriptors in one slice; beyond it they are told more briefly
MODEL_HANDLE_BYTES_MAX = 6_000  # an output is given whole up to this, then as shape and sample
MODEL_ANSWER_CHARS_MAX = 20_000  # the answer of a direct run; a person reads it
MODEL_CORRECTIONS_MAX = 10  # what a critic may ask for at once
MODEL_BACKOFF_SECONDS = 0.5  # before the first retry of a call; doubles each time, with jitter
ROWS_SCANNED_DEFAULT = 100_000_000  # minutes of an embedded engine on two cores
COST_DEFAULT = 1_000_000  # millionths of the currency unit
BUDGET_WARNING_PERCENT = 80  # leaves room to finish smaller instead of stopping

EXECUTOR_SLOTS = 50  # calls an executor keeps in flight at once
CONCURRENT_CALLS_PER_WORKER_MAX = 64  # threads of one shared worker

PACKAGE_FILE_BYTES_MAX = 1 << 20  # a semantics file or playbook is written by hand
PREDICATE_VALUES_MAX = 1_000  # a list in a definition; a longer one is a table to join

NOTE_BYTES_MAX = 1 << 16  # a checkpoint with a hundred signatures has a sixth of this
NOTE_SIGNATURES_MAX = 100  # C2SP asks for at least 16; each costs a verification
JOURNAL_GROUP_EVENTS_MAX = 4_096  # one transaction; its dirty pages stay in memory until the flush
JOURNAL_WAITING_EVENTS_MAX = 16_384  # four transactions; whoever submits more waits for the disk
RUN_KINDS_MAX = 128  # kinds of events that a run's summary names; there are about forty
READ_PAGE_ENTRIES_MAX = 1_024  # entries of one read transaction: a reader held for long makes the file grow
READ_PAGE_BYTES_MAX = 4 << 20  # bytes copied out of one read transaction, for the same reason
FSCK_FAULTS_MAX = 100  # faults that one verification names; a file with more wants a backup, not a list
MAP_BYTES_INITIAL = 64 << 20  # address space only; doubles when a transaction does not fit
MAP_BYTES_MAX = 1 << 40  # a terabyte of journal is a mistake
STORE_READERS_MAX = 510  # processes that read at once; a slot costs 64 bytes of shared memory
STRUCTURE_CHECK_BYTES_MAX = 32 << 20  # a writer walks every page of a file up to this (a quarter of a second)
ARTIFACT_INLINE_BYTES_MAX = (
    256 << 10
)  # larger values are files: LMDB would need one run of free pages for each
ARTIFACTS_PER_PUT_MAX = 4_096  # one transaction
SOCKET_PATH_BYTES_MAX = 107  # sun_path holds 108 with its final zero
PACKAGE_BYTES_MAX = 16 << 20  # all files of a snapshot; data belongs into the data folder
PACKAGE_DEPTH_MAX = 8  # folders inside folders
APPROVAL_TTL_SECONDS = (
    7 * 24 * 3_600
)  # steps of an approved plan may wait at gates of their own for some days
RUNS_LISTED = 20  # what `duly runs` shows on one screen unless told otherwise
CACHE_MAX_AGE_DAYS = 7  # what `duly cache evict` removes unless told otherwise
DUCKDB_MEMORY_BYTES_MAX = 1 << 30  # a read shares the machine with the runtime
DUCKDB_THREADS_MAX = 1  # reads of one level already run side by side
FINGERPRINT_CACHE_ENTRIES_MAX = 1_000  # more sources than any package has
SEGMENTS_MAX = 5_000  # segments of one decomposition; more do not fit one output, nor anybody's attention
LEADING_SEGMENTS_MAX = 10  # segments whose separability is named pair by pair
POOR_DAYS_MAX = 31  # the days of a month

BLOBS_PER_MESSAGE_MAX = (
    2_048  # one argument or output blob a call, and a dispatch has no more calls than a plan steps
)
HOST_CONNECTIONS_MAX = 256  # every executor and verifier of a node holds one or two
WORKERS_PER_HOST_MAX = 16  # calls that run in processes of their own at once; the rest waits
WORKERS_IDLE_MAX = 4  # warm workers that a host keeps when nothing runs; a new one costs 2 ms
WORKER_IDLE_SECONDS = 60  # a warm engine is worth its memory between the steps of a run, not between runs
WORKER_MEMORY_BYTES_MAX = (
    2 << 30
)  # private memory of one worker: a runaway expression fails instead of the machine
WORKER_FILES_MAX = 1_024  # open files of one worker
RECEIPTS_PER_GROUP_MAX = 100  # one signature covers this many results
RECEIPT_DELAY_SECONDS = 0.005  # how long a result may wait for others to be signed with it
ERROR_TEXT_CHARS_MAX = 2_000  # what a tool may say about its failure; it is text of a stranger
RUNS_GIVEN_UP_KEPT = 4_096  # runs that a host lets nothing start for; what comes late comes within moments
DISPATCHES_PER_HOST_MAX = 256  # dispatches in flight; each holds its argument bytes in memory
REQUESTS_PER_CONNECTION_MAX = 256  # under way at once on one connection; further ones wait in the kernel
FINGERPRINTS_PER_RECEIPT_MAX = 200  # sources that one call reads; more would crowd out other receipts
HOST_STARTS_SECONDS_MAX = 20  # from the start of a host until its socket answers, on a busy machine
STOP_GRACE_SECONDS = 5  # between the polite and the final signal
RUNTIME_STOPS_SECONDS_MAX = 8  # Ray ends its own processes one after the other; what it forgets is killed
CHILD_BACKOFF_SECONDS_MAX = 5  # a process that does not stay up is started again at most this often
CANDIDATES_MAX = 3  # leading segments that are looked at through the other dimensions
CATALOGUE_VALUES_MAX = 2_000  # known values of a dimension; a person names one of them
CATALOGUE_PERIODS_MAX = 1_200  # a hundred years of months
PACKAGE_FILES_MAX = 500  # a package is read by people; more files than this are data
NONCE_KEPT_SECONDS = (
    7 * 24 * 3_600
)  # after expiry a grant is refused by age; a week covers any clock set back
PACKAGE_OPEN_SECONDS_MAX = 30  # importing a package's functions; slower ones do too much at import
RECORDS_FOUND_MAX = 100  # records that are read back at once; who wants more writes a query
SURVEY_SECONDS_MAX = 600  # a preparer may read a large file; a person waits for it once
ANSWERS_MAX = (
    12  # questions to a person about one request; more means that the request should be written again
)
LOST_PER_STEP_MAX = 3  # an executor or host that dies under a step is nobody's fault, but not for ever
ENVELOPES_REMEMBERED = (
    4_096  # message ids that an actor keeps to refuse a replay; far more than are ever under way
)
REPORT_SEGMENTS_MAX = 3  # leading segments that a report states of each dimension
REPORT_DAYS_MAX = 10  # poor days that a report names of each month
REPORT_STRATA_MAX = 20  # strata of one dimension that a comparison spells out
QUESTION_CHOICES_MAX = 24  # what a person can choose from at one look
MAILBOX_ROUND_MAX = 256  # stimuli that share one journal group; more only delays the first
TALLY_ROWS_MAX = 60_000  # groups of one recount; in columns of codes they stay under a mebibyte
ACTOR_TRIES_MAX = (
    5  # an actor that is restarted answers within a few tries; more would hide that it cannot start
)
STRATA_SEGMENTS_MAX = (
    12  # segments of a dimension within each of which two others are still compared readably
)
PACKAGES_CACHED_MAX = 16  # parsed packages that a planner keeps; a cluster has few, each with a few versions
OUTPUTS_DECODED_MAX = (
    256  # outputs kept decoded beside their bytes; a level reads the same few again and again
)
WAKE_WAIT_MS_MIN = 100  # a timer that came too early is set again, and never spins
FRONT_DOOR_CONNECTIONS_MAX = 64  # commands and consoles of one person at once
NOT_STARTED_WAIT_MS = 500  # a host that takes no call now may take it then; doubles each time
ENDED_RUNS_KEPT = 256  # in the memory of the harness; the journal has all of them
ENDED_STEPS_KEPT = 4_000  # of these runs together: plan and results of a thousand steps take some 15 MB
ACTOR_IDLE_SECONDS = (
    1  # silent for longer, an actor is asked whether it lives before it gets a call that matters
)
ACTOR_LOOK_SECONDS_MAX = 1  # between two looks for an actor that is away; Ray says nothing when it is back
ACTOR_RETURNS_SECONDS_MAX = 60  # Ray starts an actor again in seconds; a busy machine takes ten times as long
EXECUTOR_HEARD_SECONDS = 2  # at work for longer, an executor is asked whether it still lives
EXECUTOR_SILENT_SECONDS_MAX = 15  # then it counts as frozen; a busy machine delays an answer by less
EXECUTORS_LOOKED_UP_SECONDS = 5  # a node that joins gets its first reads this much later
HOST_RETURNS_SECONDS_MAX = 30  # the supervisor starts a host again within its backoff and its start
SETTLE_AGAIN_SECONDS = 1  # between two questions to a write host that cannot say yet what became of an effect
FATES_KEPT = 256  # results of effects that a write host keeps for a harness that lost them
STEPS_INDEXED_MAX = (
    6_000  # of the plans whose steps and levels are kept ready; three plans of the largest size
)
PLANS_KEPT_MAX = 4  # plans kept beside their canonical bytes; one of a thousand steps takes 5 MB
EXPRESSION_CHARS_MAX = 2_000  # a condition is read by the people whom it protects
EXPRESSION_DEPTH_MAX = 24  # brackets inside brackets; a recursive compiler has a stack, and a reader a head
POLICY_SECONDS_MAX = 2  # a condition that takes longer is no condition; the gate asks instead
RUNS_PENDING_KEPT_MAX = 64  # runs whose orders are kept from one decision to the next
VERIFICATIONS_KEPT_MAX = 8  # runs whose outputs are kept packed between the two messages to the verifier
SPREAD_SECONDS_MAX = (
    60  # how long opening a package waits for other nodes to prepare its data; they join in later
)
LOCAL_CONTEXT_TOKENS = (
    16_384  # of a model served here, unless told otherwise; a plan over a dozen tools has room
)
LOCAL_CONTEXT_TOKENS_MIN = 512  # less holds no prompt of duly's
MODEL_BYTES_PER_TOKEN = 3  # to count a prompt before it is sent; English text has four, JSON three
MODEL_MESSAGE_TOKENS = 16  # what a chat template puts around one message
MODEL_ANSWER_TOKENS_MAX = 16_384  # asked of one answer; more than most models write at once
MODEL_ANSWER_TOKENS_MIN = 16  # with less left no JSON value fits, so nothing is sent
MODEL_CALLS_AT_ONCE_MAX = 8  # calls of different runs; each waits for a server, not for this machine
MODEL_ENDED_RUNS_MAX = 10_000  # that a model host refuses calls of; a few bytes each, and mandates expire
MODEL_CONNECT_SECONDS_MAX = 10  # a server that takes longer to accept is away
MODEL_REQUESTS_PER_CALL_MAX = 6  # three ways to ask for JSON, and three words a server may not know
MODEL_KEY_CHARS_MIN = 8  # shorter keys ("none", "x") are no secrets, and masking them would eat words
MODEL_WORDS_CHARS_MAX = 300  # of what a server says about a failure; it is text of a stranger
MODEL_JSON_STARTS_MAX = 50  # places in a text where JSON may begin that are tried
MODEL_CHECK_SECONDS_MAX = 60  # one small call of `duly doctor`; a model may have to be loaded first
MODEL_CHECK_TOKENS_MAX = 1_024  # of its answer, thoughts included
