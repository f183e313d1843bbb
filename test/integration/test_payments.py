"""examples/payments: whatever is killed and wherever, a key means one order, one charge and one receipt.

The programs stop at points of their own (examples/payments/pause.py), so each kill happens where it is
meant to.
"""

import importlib.util
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.paths import EXAMPLES
from harness.payments import Client, Payments
from harness.process import Workspace
from harness.site import new_key
from harness.wait import wait_for

pytestmark = pytest.mark.timeout(180)

# Every boundary of every phase, in the order in which a payment gets there.
POINTS = (
    # Phase 1: nothing is done; order, outbox and checkpoint are written; they are committed.
    "service.received",
    "service.ordering",
    "service.ordered",
    # Phase 2: the row of the outbox is claimed; the provider has the call; it has charged; the worker knows;
    # the row has the provider's id; the order is paid.
    "worker.claimed",
    "provider.received",
    "provider.charged",
    "worker.charged",
    "worker.recorded",
    "worker.settled",
    # Phase 3: the service knows; receipt and response are written; they are committed.
    "service.settled",
    "service.finishing",
    "service.finished",
)
# Where a run holds no lock, so that the next one can overtake it.
OPEN_POINTS = ("service.received", "service.ordered", "service.settled", "service.finished")
ONE_OF_EACH = {"orders": 1, "receipts": 1, "charges": 1}
VISA = {"amount": 10, "card": "visa"}


@pytest.fixture(scope="module")
def payments(module_workspace: Workspace):
    return Payments(module_workspace)


def key_of_test() -> str:
    return new_key().strip('"')


def check_one_payment(payments: Payments, client: Client) -> None:
    """One of everything, one response for ever, nothing left to settle, and the ledgers agree."""
    first = client.result()
    assert payments.counts(client.key) == ONE_OF_EACH
    for _ in range(2):
        # Envoy may take a moment to find a database that has just come back.
        again = Client(payments, client.key, client.body).result()
        assert again.headers.get("idempotent-replayed") == "true"
        for what in ("status_code", "content"):
            assert getattr(again, what) == getattr(first, what)
        assert again.headers["content-type"] == first.headers["content-type"]
    assert set(payments.states()) == {2}
    ledger = payments.ledger()
    assert ledger.returncode == 0, ledger.stdout + ledger.stderr


@pytest.mark.parametrize("victim", Payments.SERVERS)
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_anywhere_leaves_one_payment(payments, point, victim):
    payments.stop_at(point)
    client = Client(payments, key_of_test(), VISA)
    payments.wait_until(point)
    payments.kill(victim)
    payments.start(victim)
    payments.go_on(point)
    check_one_payment(payments, client)


@pytest.mark.parametrize("point", [point for point in POINTS if point.startswith(("service", "worker"))])
def test_a_program_that_goes_on_without_its_database_leaves_one_payment(payments, point):
    payments.stop_at(point)
    client = Client(payments, key_of_test(), VISA)
    payments.wait_until(point)
    payments.kill("postgres")
    payments.go_on(point)
    # The client is told to try again, or waits for the filter.
    payments.start("postgres")
    check_one_payment(payments, client)


@pytest.mark.parametrize("point", OPEN_POINTS)
def test_a_run_that_was_overtaken_has_no_effect(payments, point):
    """Its Envoy is dead, its key belongs to the next attempt, and then it goes on."""
    payments.stop_at(point)
    client = Client(payments, key_of_test(), VISA)
    payments.wait_until(point)
    payments.restart("envoy")
    client.result()
    if point != "service.finished":
        assert payments.has_reached(point)
    fenced = payments.output("service").count("service: ID00")
    payments.go_on(point)
    if point != "service.finished":
        wait_for(
            lambda: payments.output("service").count("service: ID00") == fenced + 1,
            "the run fails",
            deadline=20,
        )
    check_one_payment(payments, client)


@pytest.mark.parametrize("point", ["worker.claimed", "worker.charged", "worker.recorded"])
def test_a_worker_that_was_overtaken_charges_nothing_more(payments, point):
    payments.stop_at(point)
    client = Client(payments, key_of_test(), VISA)
    payments.wait_until(point)
    payments.start("second worker")
    client.result()
    assert payments.has_reached(point)
    payments.go_on(point)
    # It takes the next payment: so it is done with this one.
    payments.kill("second worker")
    assert Client(payments, key_of_test(), VISA).result().status_code == 201
    check_one_payment(payments, client)


def test_a_request_that_is_delivered_twice_is_one_payment(payments):
    """By a proxy that repeats it, say: both have the same attempt."""
    payments.stop_at("service.ordered")
    client = Client(payments, key_of_test(), VISA)
    payments.wait_until("service.ordered")
    ((attempt,),) = payments.query(
        "SELECT attempt FROM idempotency.record WHERE key = %s", client.key.encode()
    )
    second = payments.send_directly(VISA, **{"idempotency-attempt": str(attempt)})
    assert second.status_code == 201
    payments.go_on("service.ordered")
    check_one_payment(payments, client)
    assert client.result().content == second.content


def test_a_client_that_hangs_up_finds_its_payment(payments):
    key = key_of_test()
    payments.stop_at("service.settled")
    with pytest.raises(Exception, match="timed out"):
        payments.send(key, VISA, timeout=2)
    payments.wait_until("service.settled")
    client = Client(payments, key, VISA)
    client.result()
    payments.go_on("service.settled")
    check_one_payment(payments, client)


def test_a_declined_card_is_a_result(payments):
    client = Client(payments, key_of_test(), {"amount": 10, "card": "declined"})
    assert client.result().status_code == 402
    again = payments.send(client.key, client.body)
    assert (again.status_code, again.content) == (402, client.result().content)
    assert again.headers["idempotent-replayed"] == "true"
    assert payments.counts(client.key) == {"orders": 1, "receipts": 0, "charges": 0}
    assert payments.ledger().returncode == 0


def test_twenty_requests_at_once_are_one_payment(payments):
    key = key_of_test()
    clients = [Client(payments, key, VISA) for _ in range(20)]
    for client in clients:
        assert client.result().content == clients[0].result().content
    check_one_payment(payments, clients[0])


def test_a_key_that_is_used_again_is_another_payment(workspace):
    """Its record has expired, but the reaper has not deleted it yet, so both orders refer to it."""
    payments = Payments(workspace)
    key = key_of_test()
    assert payments.send(key, VISA).status_code == 201
    assert payments.counts(key) == ONE_OF_EACH
    payments.query(
        "UPDATE idempotency.record SET expires_at = now(), reap_at = now() + interval '1 hour'"
        " WHERE key = %s",
        key.encode(),
    )
    payments.restart("envoy")  # It has the first response in memory.
    payments.kill("worker")  # So the second order is not settled.
    payments.stop_at("service.ordered")
    with ThreadPoolExecutor(1) as pool:
        cut = pool.submit(payments.send, key, VISA)
        payments.wait_until("service.ordered")
        payments.kill("service")
        assert cut.result().status_code == 503
    payments.start("service")
    # The re-run waits for its own order, not for the one that is paid.
    again = payments.send(key, VISA)
    assert (again.status_code, "being processed" in again.text) == (503, True), again.text
    assert payments.counts(key) == {"orders": 2, "receipts": 1, "charges": 1}


def test_a_charge_that_the_provider_never_makes_becomes_a_dead_letter(workspace):
    payments = Payments(workspace)
    key = key_of_test()
    answer = payments.send(key, {"amount": 10, "card": "unavailable"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "idempotency-outcome" not in answer.headers
    wait_for(lambda: "ALERT" in payments.output("worker"), lambda: payments.output("worker"), deadline=40)
    (alert,) = [line for line in payments.output("worker").splitlines() if "ALERT" in line]
    assert "dead letter: charge of order 1, row 1 of the outbox, after 5 tries: status_503" in alert
    assert payments.query("SELECT tries, last_error, dead_at IS NULL, done_at FROM idempotency.outbox") == [
        (5, "status_503", False, None)
    ]
    # Nobody works on it any more, and the key stays as it is: the next request waits in vain.
    assert payments.send(key, {"amount": 10, "card": "unavailable"}).status_code == 503
    assert payments.counts(key) == {"orders": 1, "receipts": 0, "charges": 0}
    assert payments.ledger(grace=60).returncode == 0
    ledger = payments.ledger()
    assert ledger.returncode == 1
    assert "ledger: order 1 (open): neither paid nor declined\n" in ledger.stdout
    # An operator has the worker try again, with a card that works.
    payments.query(
        "UPDATE idempotency.outbox SET dead_at = NULL, tries = 0, due_at = now(),"
        " payload = jsonb_set(payload, '{card}', '\"visa\"')"
    )
    client = Client(payments, key, {"amount": 10, "card": "unavailable"})
    check_one_payment(payments, client)


# --- the checks themselves: an example whose checks cannot fail would show nothing

# A mistake in a program, and the payment that shows it: where the service is killed.
MISTAKES = {
    "the checkpoint has a transaction of its own": (
        "service.py",
        [
            ('        database.execute("SELECT idempotency.checkpoint(%s, %s)", [attempt, ORDERED])\n', ""),
            (
                '        pause("service.ordered")\n',
                '        pause("service.ordered")\n'
                '        database.execute("SELECT idempotency.checkpoint(%s, %s)", [attempt, ORDERED])\n',
            ),
        ],
        "service.ordered",
    ),
    "the outbox is written after the commit": (
        "service.py",
        [
            (
                "        database.execute(\n"
                "            \"SELECT idempotency.enqueue(%s, 'charge', %s)\",\n"
                '            [attempt, Jsonb({"order": order, "amount": amount, "card": card})],\n'
                "        )\n",
                "",
            ),
            (
                '        pause("service.ordering")\n    return order\n',
                '        pause("service.ordering")\n'
                '    pause("service.between")\n'
                "    database.execute(\n"
                "        \"SELECT idempotency.enqueue(%s, 'charge', %s)\",\n"
                '        [attempt, Jsonb({"order": order, "amount": amount, "card": card})],\n'
                "    )\n"
                "    return order\n",
            ),
        ],
        "service.between",
    ),
    "the receipt has a transaction of its own": (
        "service.py",
        [
            (
                "        # Checks the attempt as begin_work does.",
                '    pause("service.between")\n'
                "    with database.transaction():\n"
                "        # Checks the attempt as begin_work does.",
            )
        ],
        "service.between",
    ),
    "the provider gets no key": (
        "worker.py",
        [(', "idempotency-key": row.provider_key', "")],
        "worker.charged",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_programs_is_seen(workspace, mistake):
    name, changes, point = MISTAKES[mistake]
    programs = workspace.new_folder("programs") / "payments"
    shutil.copytree(EXAMPLES / "payments", programs)
    text = (programs / name).read_text()
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    (programs / name).write_text(text)

    payments = Payments(workspace, programs)
    payments.stop_at(point)
    client = Client(payments, key_of_test(), VISA, deadline=15)
    payments.wait_until(point)
    payments.restart(point.partition(".")[0])
    payments.go_on(point)
    with pytest.raises(AssertionError):
        check_one_payment(payments, client)
    assert payments.ledger().returncode == 1


def test_a_function_that_checks_no_attempt_is_seen(workspace):
    """As if idempotency.complete() let every attempt pass."""
    payments = Payments(workspace)
    payments.query("ALTER FUNCTION idempotency.complete RENAME TO checked")
    payments.query(
        """
        CREATE FUNCTION idempotency.complete(attempt bigint, status integer, headers jsonb, body bytea)
        RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
          PERFORM idempotency.checked(attempt, status, headers, body);
        EXCEPTION WHEN SQLSTATE 'ID001' OR SQLSTATE 'ID002' THEN NULL;
        END $$
        """
    )
    payments.stop_at("service.settled")
    client = Client(payments, key_of_test(), VISA)
    payments.wait_until("service.settled")
    payments.restart("envoy")
    client.result()
    payments.stop_at("service.finished")
    payments.go_on("service.settled")
    payments.wait_until("service.finished")
    payments.go_on("service.finished")
    assert payments.counts(client.key) == {**ONE_OF_EACH, "receipts": 2}
    ledger = payments.ledger()
    assert ledger.returncode == 1
    assert "ledger: order 1 (paid): 2 receipts\n" in ledger.stdout


# --- the job that compares the ledgers


def load_ledger():
    spec = importlib.util.spec_from_file_location("ledger", EXAMPLES / "payments" / "ledger.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def order(
    id: int = 1, state: str = "paid", young: bool = False, record: str | None = "/pay/a", **more
) -> dict:
    charge = "ch_1" if state == "paid" else None
    return {
        "id": id,
        "amount": 10,
        "state": state,
        "charge": charge,
        "young": young,
        "record": record,
        **more,
    }


def receipt(**more) -> dict:
    return {"order_id": 1, "amount": 10, "charge": "ch_1", **more}


def charge(**more) -> dict:
    return {"id": "ch_1", "key": "/pay/a", "order": 1, "amount": 10, **more}


LEDGERS = {
    "all is well": ([order()], [receipt()], [charge()], []),
    "declined": ([order(state="declined")], [], [], []),
    "just begun": ([order(state="open", young=True)], [], [], []),
    "just charged": ([order(state="open", young=True)], [], [charge()], []),
    "just paid": ([order(young=True)], [], [charge()], []),
    "two orders that have lost their records": (
        [order(record=None), order(id=2, state="declined", record=None)],
        [receipt()],
        [charge()],
        [],
    ),
    "never paid": ([order(state="open")], [], [], ["order 1 (open): neither paid nor declined"]),
    "two orders for a key": (
        [order(), order(id=2, state="declined")],
        [receipt()],
        [charge()],
        ["key /pay/a: 2 orders"],
    ),
    "no charge": ([order()], [receipt()], [], ["order 1 (paid): 0 charges"]),
    "two charges": (
        [order(young=True)],
        [receipt()],
        [charge(), charge(id="ch_2")],
        ["order 1 (paid): 2 charges", "order 1 (paid): 10, ch_1; but the provider has 10, ch_2"],
    ),
    "no receipt": ([order()], [], [charge()], ["order 1 (paid): 0 receipts"]),
    "two receipts": ([order(young=True)], [receipt()] * 2, [charge()], ["order 1 (paid): 2 receipts"]),
    "another amount at the provider": (
        [order()],
        [receipt()],
        [charge(amount=11)],
        ["order 1 (paid): 10, ch_1; but the provider has 11, ch_1"],
    ),
    "another amount on the receipt": (
        [order()],
        [receipt(amount=9)],
        [charge()],
        ["order 1 (paid): 10, ch_1; but its receipt has 9, ch_1"],
    ),
    "declined and charged": (
        [order(state="declined")],
        [],
        [charge()],
        ["order 1 (declined): 1 charges", "order 1 (declined): 10, None; but the provider has 10, ch_1"],
    ),
    "a charge of no order": ([], [], [charge()], ["charge ch_1: no order 1"]),
}


@pytest.mark.parametrize("case", LEDGERS)
def test_the_job_finds_each_difference(case):
    orders, receipts, charges, expected = LEDGERS[case]
    assert load_ledger().differences(orders, receipts, charges) == expected
