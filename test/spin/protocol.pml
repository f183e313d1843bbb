/*
 * The protocol of one key, for the model checker spin. `test/spin/run` checks it; docs/reliability.md tells more.
 *
 * Two Envoys with one request each at a time, one store, one upstream. Clients send the same request again and again,
 * for ever. Envoys crash, messages come late, twice or never, leases run out, a proxy answers in the upstream's place, the
 * upstream sends a request on to another one, each as often as it likes. spin goes through every order of all this, and
 * in every one the promise must hold:
 *
 *   once      The request is not run twice; with policy RETRY only after a lease ran out, and never by taking over a
 *             claim whose lease lives. A call that the upstream itself answers with a retryable status (503) is no run:
 *             it says that nothing was done. A proxy that says 503 says nothing of the kind. What Envoy or a proxy sends
 *             again by itself, within one attempt, is not counted.
 *   kept      From the moment at which a client was told a success as stored, the record holds that result, and
 *             nobody is told another one as stored. With RETRY too: whoever comes too late is fenced off.
 *   real      No client is told a success without a run behind it.
 *   settled   Once faults end (`calm`), the key comes to a success that is stored and told, and stays there.
 *   ended     The same without anybody who settles unknown outcomes: it comes to a stored result or to `unknown`,
 *             and stays there.
 *
 * How to read it. A process is a loop of steps: `d_step { when -> what }` happens at once, seen by nobody half done.
 * `did(…)` says in words what a step does: counterexamples are told in them, and test/spin/run demands that every one
 * is met. (spin's own list of unreached code does not look into a d_step.) `MUTANT` stands for a mistake made on purpose:
 * spin must then find a promise broken. Comments name the code or the SQL that a step stands for.
 *
 * What is not here: the end of a completed record's life, tenants, fingerprints, waiting, the replay cache and quotas
 * (test/model, test/sweep and test/integration have them); FAIL_OPEN, which promises nothing.
 */

/* ---- Bounds ------------------------------------------------------------------------------------------------ */

/* How many attempts can leave a trace at one time: in the record, in an Envoy, on the wire, at the upstream. A token
 * that has left none is used again, so requests are not bounded. In the product tokens never come again
 * (newAttempt() in source/store/store.h). */
#ifndef TOKENS
#define TOKENS 3
#endif
#define NOBODY 0

#if TOKENS == 4
#define EACH(f) f(4); f(3); f(2); f(1)
#define ANY(f) (f(1) || f(2) || f(3) || f(4))
#define EXPECTED(t) (expects(1, t) || expects(2, t) || expects(3, t) || expects(4, t))
#elif TOKENS == 3
#define EACH(f) f(3); f(2); f(1)
#define ANY(f) (f(1) || f(2) || f(3))
#define EXPECTED(t) (expects(1, t) || expects(2, t) || expects(3, t))
#else
#define EACH(f) f(2); f(1)
#define ANY(f) (f(1) || f(2))
#define EXPECTED(t) (expects(1, t) || expects(2, t))
#endif

/* ---- Mistakes: -DMUTANT=… ----------------------------------------------------------------------------------- */

mtype:mutant = {
  NoMutant,
  UnknownRetried,         /* A retry re-claims an unknown outcome. */
  FencingIgnored,         /* A write changes a record in progress whoever holds it. */
  ResultNotFenced,        /* The same, for results alone. */
  LateWriteWins,          /* A write changes any record, also one that is completed. */
  DoubtTakenAsClaimed,    /* A claim whose answer did not come counts as granted. */
  ClaimNotDurable,        /* The store grants a claim and then loses it. */
  TimeoutReleases,        /* A call that timed out counts as never sent. */
  DeadLeaseRetried,       /* A lease that ran out is re-claimed although the policy does not say RETRY. */
  ReclaimWithoutCompare,  /* A re-claim does not look whether the record is still as it was found. */
  LeaseNotComparedAgain,  /* A re-claim takes what it found with a dead lease, although a heartbeat has renewed it. */
  AnswerBeforeStore,      /* The client gets its answer as stored before it is. */
  HastyReconciler,        /* "Has not run yet" counts as "will never run". */
  ResolveWithoutCompare,  /* A verdict is written although another attempt holds the record by now. */
  ProxyAnswerTrusted,     /* What a proxy says counts as the upstream's word. */
  LastAnswerTrusted,      /* Envoy has sent the request twice, and the second answer counts for both. */
  RedirectForgotten,      /* The answer of the second upstream counts as if the first one had not run. */
  UnknownFreedByTime,     /* A record whose outcome is unknown is deleted at the end of its life. */
  GuessingReconciler,     /* An unknown outcome is resolved as completed without a run. */
  NoSweeper,              /* Leases that ran out stay as they are. */
  NoReconciler            /* Unknown outcomes stay as they are. */
};
#ifndef MUTANT
#define MUTANT NoMutant
#endif

/* ---- State -------------------------------------------------------------------------------------------------- */

mtype:state = { Absent, InProgress, Completed, FailedRetryable, Unknown };  /* RecordState, source/protocol/record.h */
mtype:write = { None, Complete, Fail, Release, MarkUnknown };               /* EndingKind, protocol/outcome.h */
mtype:call = {
  NotSent, OnItsWay, Succeeded, Failed, Refused,
  SentOn,       /* An internal redirect: the first upstream has run it, the second one has not answered. */
  SentOnFailed  /* The second one is not reached, denies it, or says 503. */
};
mtype:phase = { Idle, Asking, Granted, Sent, Settling };                    /* Of a stream: claimant.h, running_attempt.h */

bool retry;  /* Policy on_lease_expired: RETRY; else UNKNOWN. */
bool calm;   /* Faults are over. */

/* The row of the key: sql/0001_records.sql. */
typedef Record {
  mtype:state state = Absent;
  byte attempt;      /* Who holds it, or held it last. */
  bool lease_alive;  /* In progress only. By the store's clock, whoever asks. */
  bool reclaimed;    /* In progress only. To release it does not delete the row. */
  bool dead_letter;  /* Unknown only. The reconciler has given up. */
  byte result        /* Completed only: whose response is stored. */
}
Record record;

typedef Attempt {
  bit envoy;                      /* Whose it is. */
  bool claim;                     /* The claim is on its way to the store. */
  mtype:state from_state = Absent;  /* A re-claim: what the record must still be … */
  byte from_attempt;                /* … and whose (ReclaimFrom, source/store/store.h). Absent: a first claim. */
  mtype:write write = None;       /* The ending that is on its way to the store, */
  bool remembered;                /* and that its Envoy goes on sending (source/runtime/settler.h, orphans.h). */
  mtype:call call = NotSent       /* The request to the upstream. */
}
Attempt attempt[TOKENS + 1];  /* By token; 0 is nobody. */

typedef Request {
  mtype:phase phase = Idle;
  byte attempt
}
Request request[2];  /* By Envoy. */

typedef Inquiry {
  byte attempt;                 /* Which one the reconciler has asked the upstream about, */
  mtype:state verdict = Absent  /* and what the record is to become. */
}
Inquiry inquiry;

/* What the promise is about, seen from outside. */
bool ran;            /* The upstream has run the request. */
bool lease_ran_out;  /* Kept for RETRY alone. */
byte acked;          /* Whose success a client was told as stored. */

byte spare = 1;  /* A token without a trace. */

/* ---- Words and promises ------------------------------------------------------------------------------------- */

#ifdef COVERAGE  /* The verifier says once for each step that it happened. */
#define did(text, ...) c_code { static int seen; if (!seen) { seen = 1; printf("did: %s", text); } }
#else
#define did(...) printf(__VA_ARGS__)
#endif
#define mistake(...) printf(__VA_ARGS__)  /* A step of a mutant alone. */
#define promise(holds, words) if :: (holds) -> skip :: else -> printf(words); assert(false) fi

/* The upstream has run this attempt. */
#define RAN(t) (attempt[t].call == Succeeded || attempt[t].call == SentOn || attempt[t].call == SentOnFailed)

inline tellSuccess(whose, stored) {
  promise(RAN(whose), "Broken, real: a success is told, but nothing ran\n");
  if
  :: stored ->
     promise(acked == NOBODY || acked == whose, "Broken, kept: a client is told another success than before\n");
     acked = whose
  :: else
  fi
}

/* ---- Tokens: nothing of the protocol ------------------------------------------------------------------------ */

#define expects(x, t) (attempt[x].from_attempt == t)
#define uses(e, t) (request[e].attempt == t)
#define waits(e, t) (request[e].attempt == t && request[e].phase == Sent)
#define USED(t) (record.attempt == t || record.result == t || acked == t || inquiry.attempt == t || EXPECTED(t) \
  || uses(0, t) || uses(1, t) || attempt[t].claim || attempt[t].write != None || attempt[t].call == OnItsWay)

/* Forgets what nobody can see any more, so that equal situations are equal states. */
inline tidy(t) {
  if
  :: USED(t) ->
     if
     :: (attempt[t].call == Failed || attempt[t].call == Refused) && !waits(0, t) && !waits(1, t) ->
        attempt[t].call = NotSent
     /* What the second upstream does for nobody is seen by nobody. */
     :: (attempt[t].call == SentOn || attempt[t].call == SentOnFailed) && !waits(0, t) && !waits(1, t) ->
        attempt[t].call = Succeeded
     :: else
     fi;
     if
     :: !attempt[t].remembered && !uses(0, t) && !uses(1, t) -> attempt[t].envoy = 0
     :: else
     fi
  :: else ->
     attempt[t].envoy = 0; attempt[t].call = NotSent; spare = t
  fi
}

/* Ends every step. */
inline done() {
  promise(acked == NOBODY || (record.state == Completed && record.result == acked),
    "Broken, kept: a success that was told as stored is stored no more\n");
  spare = NOBODY;
  EACH(tidy)
}

/* ---- Statements of the store: source/store/postgres/schema/statements.cc; each is one transaction -------------------- */

#define OURS(t) (record.attempt == t && record.state == InProgress)

/* idempotency_claim inserts what is absent; idempotency_reclaim compares and sets. */
#define MAY_CLAIM(t) (attempt[t].claim && record.state == Absent)
#define UNCHANGED(t) (record.state == attempt[t].from_state && record.attempt == attempt[t].from_attempt)
#define CLAIMABLE (record.state == FailedRetryable || (record.state == InProgress && !record.lease_alive) \
  || (MUTANT == UnknownRetried && record.state == Unknown) || MUTANT == LeaseNotComparedAgain)
#define MAY_RECLAIM(t) (attempt[t].claim && attempt[t].from_state != Absent \
  && (UNCHANGED(t) || MUTANT == ReclaimWithoutCompare) && CLAIMABLE)

inline endClaim(t) {
  attempt[t].claim = false; attempt[t].from_state = Absent; attempt[t].from_attempt = NOBODY
}

inline grant(t, again) {
  promise(record.state != InProgress || !record.lease_alive, "Broken, once: a live claim is taken over\n");
  record.state = InProgress; record.attempt = t; record.lease_alive = true; record.reclaimed = again;
  record.dead_letter = false;
  endClaim(t)
}

inline become(new_state) {
  record.state = new_state; record.lease_alive = false; record.reclaimed = false; record.dead_letter = false;
  if :: new_state == Absent -> record.attempt = NOBODY :: else fi
}

/* A result is known, and nobody else has the record: it comes late, but not too late. */
#define LATE_RESULT(t, kind) (kind == Complete && record.attempt == t && record.state == Unknown)
#define MAY_WRITE(t, kind) (attempt[t].write == kind && (OURS(t) || LATE_RESULT(t, kind) || MISTAKEN(kind)))
#define MISTAKEN(kind) ((MUTANT == FencingIgnored && record.state == InProgress) \
  || (MUTANT == ResultNotFenced && record.state == InProgress && kind == Complete) \
  || (MUTANT == LateWriteWins && record.state != Absent))

/* The write is already there, by this attempt: WriteOperation::judge(). */
#define WRITTEN(t) (record.attempt == t && ((attempt[t].write == Complete && record.state == Completed) \
  || (attempt[t].write == Fail && record.state == FailedRetryable) \
  || (attempt[t].write == MarkUnknown && record.state == Unknown)))

/* idempotency_complete, _fail, _mark_unknown, _release: all name the attempt. Sets `stored`. */
inline carryOut(t) {
  stored = true;
  if
  :: MAY_WRITE(t, Complete) && !LATE_RESULT(t, Complete) ->
     did("store: the result of attempt %d is stored\n", t); become(Completed); record.result = t
  :: MAY_WRITE(t, Complete) && LATE_RESULT(t, Complete) ->
     did("store: the result of attempt %d settles its unknown outcome\n", t); become(Completed); record.result = t
  :: MAY_WRITE(t, Fail) -> did("store: attempt %d has failed, a retry may run\n", t); become(FailedRetryable)
  :: MAY_WRITE(t, MarkUnknown) -> did("store: the outcome of attempt %d is unknown\n", t); become(Unknown)
  :: MAY_WRITE(t, Release) && !record.reclaimed ->
     did("store: attempt %d is released, the key is free\n", t); become(Absent)
  :: MAY_WRITE(t, Release) && record.reclaimed ->
     did("store: attempt %d hands the record back\n", t); become(FailedRetryable)
  :: else ->
     if
     :: WRITTEN(t) -> did("store: what attempt %d writes is there already\n", t)
     :: else -> did("store: attempt %d is fenced off, nothing changes\n", t); stored = false
     fi
  fi
}

/* ---- An Envoy: source/request ------------------------------------------------------------------------------- */

#define R request[e]
#define A attempt[R.attempt]
#define ASKS (R.phase == Asking && A.claim && !MAY_CLAIM(R.attempt) && !MAY_RECLAIM(R.attempt))
#define FINDS(found) (ASKS && record.state == found)
#define RETRIES (retry || MUTANT == DeadLeaseRetried)

/* StreamFilter::askToClaim(). A re-claim uses its token again: the claim before it has left no trace. */
inline ask(token, found, whose) {
  R.phase = Asking; R.attempt = token;
  A.envoy = e; A.claim = true; A.from_state = found; A.from_attempt = whose
}

inline endRequest() {
  R.phase = Idle; R.attempt = NOBODY
}

inline refuse() {
  endClaim(R.attempt); endRequest()
}

/* StreamFilter::run(). */
inline send() {
  R.phase = Sent; A.call = OnItsWay
}

/* StreamFilter::settleAndHold(), Backend::settle(). */
inline settle(kind) {
  R.phase = Settling; A.write = kind; A.remembered = true
}

/* Store::abandon(), and the settle list for a claim in doubt: released as soon as its fate is known. */
inline withdraw() {
  A.write = Release; A.remembered = true; endRequest()
}

/* What is in the process's memory is gone; what is on the wire is not. */
inline forget(t) {
  if :: attempt[t].envoy == e -> attempt[t].remembered = false :: else fi
}
inline crash() {
  EACH(forget); endRequest()
}
#define busyFor(t) (attempt[t].envoy == e && attempt[t].remembered)

proctype Envoy(bit e) {
  do
  /* A client sends the request, for the first time or again. */
  :: d_step { R.phase == Idle && spare != NOBODY ->
       did("Envoy %d: a request comes, it claims as attempt %d\n", e, spare); ask(spare, Absent, NOBODY); done() }
  :: d_step { R.phase == Idle && ANY(busyFor) && !calm ->
       did("Envoy %d crashes while it writes in the background\n", e); crash(); done() }

  /* The store answers: Claimant::onClaimResult(), then decide() in source/protocol/decide.cc. */
  :: d_step { R.phase == Asking && MAY_CLAIM(R.attempt) && MUTANT != ClaimNotDurable ->
       did("Envoy %d: attempt %d has the claim\n", e, R.attempt); grant(R.attempt, false); R.phase = Granted; done() }
  :: d_step { R.phase == Asking && MAY_CLAIM(R.attempt) && MUTANT == ClaimNotDurable ->
       mistake("Envoy %d: attempt %d has the claim, the store loses it\n", e, R.attempt);
       endClaim(R.attempt); send(); done() }
  :: d_step { R.phase == Asking && MAY_RECLAIM(R.attempt) ->
       did("Envoy %d: attempt %d has the re-claim\n", e, R.attempt); grant(R.attempt, true); R.phase = Granted; done() }
  :: d_step { FINDS(InProgress) && record.lease_alive ->
       did("Envoy %d: another attempt is running: 409 in progress\n", e); refuse(); done() }
  :: d_step { FINDS(InProgress) && !record.lease_alive && !RETRIES ->
       did("Envoy %d: a lease has run out: 409 outcome unknown\n", e); refuse(); done() }
  :: d_step { FINDS(InProgress) && !record.lease_alive && RETRIES ->
       did("Envoy %d: a lease has run out, re-claim as attempt %d\n", e, R.attempt);
       ask(R.attempt, record.state, record.attempt); done() }
  :: d_step { FINDS(FailedRetryable) ->
       did("Envoy %d: an attempt has failed, re-claim as attempt %d\n", e, R.attempt);
       ask(R.attempt, record.state, record.attempt); done() }
  :: d_step { FINDS(Unknown) && MUTANT != UnknownRetried ->
       did("Envoy %d: 409 outcome unknown\n", e); refuse(); done() }
  :: d_step { FINDS(Unknown) && MUTANT == UnknownRetried ->
       mistake("Envoy %d: the outcome is unknown, re-claim as attempt %d\n", e, R.attempt);
       ask(R.attempt, record.state, record.attempt); done() }
  :: d_step { FINDS(Completed) ->
       did("Envoy %d: replay of the result of attempt %d\n", e, record.result);
       tellSuccess(record.result, true); refuse(); done() }

  /* No answer in time (InDoubt), or the client leaves: StreamFilter::leaveRequest(). The claim may be there, or come. */
  :: d_step { (R.phase == Asking || R.phase == Granted) && !calm && MUTANT != DoubtTakenAsClaimed ->
       did("Envoy %d: the claim of attempt %d is in doubt: 503\n", e, R.attempt); withdraw(); done() }
  :: d_step { R.phase == Asking && !calm && MUTANT == DoubtTakenAsClaimed ->
       mistake("Envoy %d: the claim of attempt %d is in doubt, it goes to the upstream\n", e, R.attempt); send(); done() }
  :: d_step { R.phase == Asking && !calm ->
       did("Envoy %d crashes while it asks the store\n", e); crash(); done() }

  /* StreamFilter::grant(): a claim counts only while its lease lives, by a clock that runs as fast as the store's. Else an
   * attempt could go to the upstream after it was declared dead. */
  :: d_step { R.phase == Granted && OURS(R.attempt) && record.lease_alive ->
       did("Envoy %d: attempt %d goes to the upstream\n", e, R.attempt); send(); done() }
  :: d_step { R.phase == Granted && !(OURS(R.attempt) && record.lease_alive) ->
       did("Envoy %d: the claim of attempt %d came too late: 503\n", e, R.attempt); withdraw(); done() }
  :: d_step { R.phase == Granted && !calm ->
       did("Envoy %d crashes between claim and call\n", e); crash(); done() }

  /* The call is over: judgeOutcome() in source/protocol/outcome.cc. */
  :: d_step { R.phase == Sent && A.call == Succeeded ->
       did("Envoy %d: the answer to attempt %d is a success\n", e, R.attempt);
       if :: MUTANT == AnswerBeforeStore -> tellSuccess(R.attempt, true) :: else fi;
       settle(Complete); done() }
  :: d_step { R.phase == Sent && A.call == Failed ->
       did("Envoy %d: the answer to attempt %d is a retryable failure\n", e, R.attempt); settle(Fail); done() }
  :: d_step { R.phase == Sent && A.call == Refused ->
       did("Envoy %d: attempt %d was surely not run\n", e, R.attempt); settle(Release); done() }
  :: d_step { R.phase == Sent && (A.call == NotSent || !calm) && MUTANT != TimeoutReleases ->
       did("Envoy %d: time-out, reset or client gone, attempt %d may have run\n", e, R.attempt);
       settle(MarkUnknown); done() }
  :: d_step { R.phase == Sent && (A.call == NotSent || !calm) && MUTANT == TimeoutReleases ->
       mistake("Envoy %d: time-out, attempt %d is to be released\n", e, R.attempt); settle(Release); done() }
  /* A response without a trace of the upstream itself; one after more than one try of Envoy's router; one after an
   * internal redirect. Each tells something of the last who was asked, nothing of those before. */
  :: d_step { R.phase == Sent && !calm && MUTANT != ProxyAnswerTrusted ->
       did("Envoy %d: a proxy answers 503 or 504 in the upstream's place, attempt %d may have run\n", e, R.attempt);
       settle(MarkUnknown); done() }
  :: d_step { R.phase == Sent && !calm && MUTANT == ProxyAnswerTrusted ->
       mistake("Envoy %d: a proxy answers 503, attempt %d is taken for failed\n", e, R.attempt); settle(Fail); done() }
  :: d_step { R.phase == Sent && !calm && MUTANT != LastAnswerTrusted ->
       did("Envoy %d: it sent attempt %d again, the second answer is 503, the first try may have run\n", e, R.attempt);
       settle(MarkUnknown); done() }
  :: d_step { R.phase == Sent && !calm && MUTANT == LastAnswerTrusted ->
       mistake("Envoy %d: it sent attempt %d again, the second answer is 503: taken for failed\n", e, R.attempt);
       settle(Fail); done() }
  :: d_step { R.phase == Sent && A.call == SentOnFailed && MUTANT != RedirectForgotten ->
       did("Envoy %d: attempt %d was sent on and failed there, the first upstream has run it\n", e, R.attempt);
       settle(MarkUnknown); done() }
  :: d_step { R.phase == Sent && A.call == SentOnFailed && MUTANT == RedirectForgotten ->
       mistake("Envoy %d: attempt %d was sent on and failed there: taken for failed\n", e, R.attempt); settle(Fail); done() }
  :: d_step { R.phase == Sent && !calm ->
       did("Envoy %d crashes during the call\n", e); crash(); done() }

  /* completion_timeout is over, or the settler has given up: the client gets the true answer, marked
   * `Idempotency-Stored: false`. The write goes on. In time: report(). */
  :: d_step { R.phase == Settling && A.write == Complete && !calm ->
       did("Envoy %d: the success of attempt %d is told, as not stored\n", e, R.attempt); tellSuccess(R.attempt, false);
       endRequest(); done() }
  :: d_step { R.phase == Settling && A.write != Complete && !calm ->
       did("Envoy %d: the failure of attempt %d is told, as not stored\n", e, R.attempt); endRequest(); done() }
  :: d_step { R.phase == Settling && !calm ->
       did("Envoy %d crashes while it stores\n", e); crash(); done() }
  od
}

/* ---- What is on its way: an attempt's statements to the store, and its call to the upstream ------------------- */

#define OWNER request[attempt[t].envoy]
#define AWAITED(t) (attempt[t].claim && OWNER.attempt == t && OWNER.phase == Asking)

/* The store's word on a write reaches its Envoy: Settler::onResult(), StreamFilter::onSettled(). */
inline report(t) {
  attempt[t].remembered = false;
  if
  :: OWNER.attempt == t && OWNER.phase == Settling ->
     if
     :: attempt[t].write == Complete && stored ->
        did("Envoy %d: the success of attempt %d is told\n", attempt[t].envoy, t); tellSuccess(t, true)
     :: attempt[t].write == Complete && !stored ->
        did("Envoy %d: the success of attempt %d is told, as fenced off\n", attempt[t].envoy, t); tellSuccess(t, false)
     :: else -> did("Envoy %d: the failure of attempt %d is told\n", attempt[t].envoy, t)
     fi;
     OWNER.phase = Idle; OWNER.attempt = NOBODY
  :: else
  fi
}

/* A claim in doubt is looked for until it has come. */
#define KNOWN(t) (attempt[t].remembered && !attempt[t].claim)
/* Once it is calm, statements come in order. */
#define COMES(t) (attempt[t].write != None && !(calm && attempt[t].claim))

proctype Wire(byte t) {
  bool stored;
  do
  /* Whoever asked for it waits no more. */
  :: d_step { attempt[t].claim && !AWAITED(t) && MAY_CLAIM(t) ->
       did("store: a late claim makes a record for attempt %d\n", t); grant(t, false); done() }
  :: d_step { attempt[t].claim && !AWAITED(t) && MAY_RECLAIM(t) ->
       did("store: a late re-claim takes the record for attempt %d\n", t); grant(t, true); done() }
  :: d_step { attempt[t].claim && !AWAITED(t) && !MAY_CLAIM(t) && !MAY_RECLAIM(t) ->
       did("store: a late claim of attempt %d changes nothing\n", t); endClaim(t); done() }
  :: d_step { attempt[t].claim && !AWAITED(t) && !calm ->
       did("wire: the claim of attempt %d is lost\n", t); endClaim(t); done() }

  :: d_step { COMES(t) && KNOWN(t) -> carryOut(t); report(t); attempt[t].write = None; stored = false; done() }
  :: d_step { COMES(t) && KNOWN(t) && !calm ->
       carryOut(t); report(t); stored = false;
       did("wire: another copy of the write of attempt %d is on its way\n", t); done() }
  :: d_step { COMES(t) && attempt[t].remembered && !calm ->
       carryOut(t); stored = false;
       did("wire: the store's answer to attempt %d is lost, it will write again\n", t); done() }
  :: d_step { COMES(t) && !attempt[t].remembered ->
       carryOut(t); attempt[t].write = None; stored = false; done() }
  :: d_step { attempt[t].write != None && !attempt[t].remembered ->
       did("wire: a write of attempt %d is lost, nobody repeats it\n", t); attempt[t].write = None; done() }
  :: d_step { attempt[t].remembered && !calm && !(OWNER.attempt == t) ->
       did("Envoy %d: attempt %d stops to repeat its write\n", attempt[t].envoy, t); attempt[t].remembered = false; done() }

  /* source/runtime/heartbeat.h; idempotency_extend. Until the attempt's end is written or given up. */
  :: d_step { OURS(t) && !record.lease_alive && (waits(attempt[t].envoy, t) || attempt[t].remembered) ->
       did("store: a heartbeat renews the lease of attempt %d\n", t); record.lease_alive = true; done() }

  /* The upstream. */
  :: d_step { attempt[t].call == OnItsWay ->
       if
       :: ran -> did("upstream: attempt %d runs the request again\n", t)
       :: else -> did("upstream: attempt %d runs the request\n", t)
       fi;
       promise(!ran || (retry && lease_ran_out), "Broken, once: the request has run twice\n");
       ran = true; attempt[t].call = Succeeded; done() }
  :: d_step { attempt[t].call == OnItsWay && !calm ->
       did("upstream: attempt %d runs the request and sends it on to another upstream\n", t);
       promise(!ran || (retry && lease_ran_out), "Broken, once: the request has run twice\n");
       ran = true; attempt[t].call = SentOn; done() }
  :: d_step { attempt[t].call == SentOn && waits(attempt[t].envoy, t) ->
       did("upstream: the other one answers attempt %d\n", t); attempt[t].call = Succeeded; done() }
  :: d_step { attempt[t].call == SentOn && waits(attempt[t].envoy, t) && !calm ->
       did("upstream: the other one is not reached by attempt %d, or refuses it\n", t);
       attempt[t].call = SentOnFailed; done() }
  :: d_step { attempt[t].call == OnItsWay && !calm ->
       did("upstream: attempt %d gets 503, nothing is done\n", t); attempt[t].call = Failed; done() }
  :: d_step { attempt[t].call == OnItsWay && !calm ->
       did("upstream: attempt %d gets no connection\n", t); attempt[t].call = Refused; done() }
  :: d_step { attempt[t].call == OnItsWay && !calm ->
       did("upstream: the call of attempt %d is lost\n", t); attempt[t].call = NotSent; done() }
  od
}

/* ---- Time and maintenance ----------------------------------------------------------------------------------- */

/* A lease can run out at any time: its Envoy may stand still, or its heartbeats be lost. */
#define HOLDER attempt[record.attempt]
#define HELD (HOLDER.remembered || uses(0, record.attempt) || uses(1, record.attempt))

proctype Maintenance() {
  do
  :: d_step { record.state == InProgress && record.lease_alive && !(calm && HELD) ->
       did("store: the lease of attempt %d runs out\n", record.attempt);
       record.lease_alive = false; lease_ran_out = retry; done() }
  /* idempotency.sweep() in sql/0004_locks_and_quota.sql. */
  :: d_step { record.state == InProgress && !record.lease_alive && !retry && MUTANT != NoSweeper ->
       did("sweeper: the outcome of attempt %d is unknown\n", record.attempt); become(Unknown); done() }
  :: d_step { record.state == InProgress && !record.lease_alive && retry && MUTANT != NoSweeper ->
       did("sweeper: attempt %d is dead, a retry may run\n", record.attempt); become(FailedRetryable); done() }
  /* idempotency.reap() leaves alone what is unknown, however old. */
  :: d_step { record.state == Unknown && MUTANT == UnknownFreedByTime ->
       mistake("sweeper: the life of attempt %d's record is over, the key is free\n", record.attempt);
       become(Absent); done() }
  od
}

/* source/runtime/reconciler.cc and source/protocol/reconcile.cc: the reconciler finds out from the upstream what became of
 * the attempt, and writes it by compare-and-set on state and attempt. "It did not run" means that it never will: if the
 * call is still on its way, the upstream refuses the attempt from then on, or the reconciler asks again. After so many
 * questions it gives up: a dead letter waits for an operator, who settles it or has it asked about again. */
#define STILL_UNKNOWN (record.state == Unknown && (record.attempt == inquiry.attempt || MUTANT == ResolveWithoutCompare))

/* Stands for the answer, too. */
inline inquire() {
  inquiry.attempt = record.attempt;
  if
  :: RAN(record.attempt) ->
     did("reconciler: the upstream has run attempt %d\n", inquiry.attempt); inquiry.verdict = Completed
  :: HOLDER.call == OnItsWay && MUTANT != HastyReconciler ->
     did("reconciler: the upstream will refuse attempt %d\n", inquiry.attempt);
     HOLDER.call = Refused; inquiry.verdict = FailedRetryable
  :: else ->
     did("reconciler: the upstream has not run attempt %d\n", inquiry.attempt); inquiry.verdict = FailedRetryable
  fi;
  if :: MUTANT == GuessingReconciler -> inquiry.verdict = Completed :: else fi
}

inline forgetInquiry() {
  inquiry.attempt = NOBODY; inquiry.verdict = Absent
}

proctype Reconciler() {
  do
  :: d_step { record.state == Unknown && !record.dead_letter && inquiry.attempt == NOBODY && MUTANT != NoReconciler ->
       inquire(); done() }
  :: d_step { record.state == Unknown && !record.dead_letter && inquiry.attempt == NOBODY && MUTANT != NoReconciler &&
              HOLDER.call == OnItsWay && !calm ->
       did("reconciler: attempt %d is absent, it is asked about again\n", record.attempt); done() }
  :: d_step { record.state == Unknown && !record.dead_letter && inquiry.attempt == NOBODY && MUTANT != NoReconciler &&
              !calm ->
       did("reconciler: it gives up attempt %d, a dead letter\n", record.attempt); record.dead_letter = true; done() }
  :: d_step { record.dead_letter ->
       did("operator: attempt %d is to be asked about again\n", record.attempt); record.dead_letter = false; done() }
  :: d_step { STILL_UNKNOWN && inquiry.verdict == Completed ->
       did("reconciler: attempt %d is completed\n", inquiry.attempt);
       become(Completed); record.result = inquiry.attempt; forgetInquiry(); done() }
  :: d_step { STILL_UNKNOWN && inquiry.verdict == FailedRetryable ->
       did("reconciler: attempt %d has failed, a retry may run\n", inquiry.attempt);
       become(FailedRetryable); forgetInquiry(); done() }
  :: d_step { inquiry.attempt != NOBODY && !STILL_UNKNOWN ->
       did("reconciler: the record is not what attempt %d left\n", inquiry.attempt); forgetInquiry(); done() }
  :: d_step { inquiry.attempt != NOBODY && !calm ->
       did("reconciler: it crashes before it writes\n"); forgetInquiry(); done() }
  od
}

/* By hand, in one step, at any time; nothing waits for it. */
proctype Operator() {
  do
  :: d_step { record.state == Unknown && RAN(record.attempt) && !calm ->
       did("operator: attempt %d is completed\n", record.attempt);
       record.result = record.attempt; become(Completed); done() }
  :: d_step { record.state == Unknown && !RAN(record.attempt) && !calm ->
       did("operator: attempt %d has failed and must not run any more\n", record.attempt);
       if :: HOLDER.call == OnItsWay -> HOLDER.call = Refused :: else fi;
       become(FailedRetryable); done() }
  od
}

/* ---- The whole ---------------------------------------------------------------------------------------------- */

#define startWire(t) run Wire(t)

init {
  atomic { retry = RETRY; run Envoy(0); run Envoy(1); EACH(startWire); run Maintenance(); run Reconciler() }
#ifdef CALM_COMES
  d_step { printf("Faults are over.\n"); calm = true }
#else
  run Operator()
#endif
}

#ifdef CALM_COMES
ltl settled { [] (calm -> <> [] (record.state == Completed && acked != NOBODY)) }
ltl ended { [] (calm -> <> [] (record.state == Completed || record.state == Unknown)) }
#endif
