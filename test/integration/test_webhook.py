"""A service settles what became of its requests, by a webhook of a real Envoy's operator filter."""

import functools
import time

import pytest
from harness.operators import ACTOR, NOT_RUN, Operator, completed, generic, send_webhook, standard, stripe
from harness.site import Site, new_key
from harness.wait import wait_for
from test_operator import leave_unknown, make_site  # noqa: F401

SECRET = "a secret of the payment service"
PATH = "/hooks/outcomes"


@pytest.fixture
def secret(folder):
    path = folder / "secret"
    path.write_text(SECRET + "\n")
    return path


@pytest.fixture
def make(make_site, secret):  # noqa: F811
    def make(**webhook) -> Site:
        keys = [{"id": "payments-1", "file": str(secret)}]
        return make_site(webhook={"path": PATH, "keys": keys, **webhook})

    return make


def event_of(site: Site, key: str, **members) -> dict:
    return {"attempt": str(site.record(key)["attempt"]), **members}


def send(site: Site, event: dict, sign=generic, secret: str = SECRET, at: float | None = None):
    return send_webhook(site.envoy, PATH, event, functools.partial(sign, secret, at=at))


def test_a_completed_event_lets_the_retry_replay(make):
    site = make()
    key = leave_unknown(site)
    record = Operator(site.envoy).record(key)
    names = {name: record[name] for name in ("tenant", "operation", "key")}
    answer = send(site, {**names, **completed()})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"record": record["id"], "outcome": "completed"}
    retry = site.send("/pay/", key)
    assert (retry.status, retry.body, retry.header("idempotent-replayed")) == (201, b'{"payment": 1}', "true")
    timeline = Operator(site.envoy).get(f"/records/{record['id']}")["timeline"]
    assert ("webhook:payments-1", "resolve_completed") in [(e["actor"], e["action"]) for e in timeline]


def test_a_not_run_event_lets_the_retry_run_once(make):
    site = make()
    key = leave_unknown(site)
    event = event_of(site, key, **NOT_RUN)
    assert send(site, event).status_code == 200
    assert site.send("/pay/", key).status == 200
    assert site.send("/pay/", key).header("idempotent-replayed") == "true"
    # Delivered once more, late: the later attempt keeps its result.
    again = send(site, event)
    assert (again.status_code, site.state(key)) == (200, "completed")
    assert len(site.executions(key)) == 2


def test_not_run_must_name_the_attempt(make):
    site = make()
    key = leave_unknown(site)
    names = {"tenant": "acme", "operation": "create-payment", "key": key.strip('"')}
    answer = send(site, {**names, **NOT_RUN})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert "attempt" in answer.json()["detail"]
    assert site.state(key) == "unknown"


def test_the_same_event_again_gets_the_same_answer(make):
    site = make()
    key = leave_unknown(site)
    event = event_of(site, key, **completed())
    answers = [send(site, event, at=time.time() - i) for i in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.text for answer in answers}) == 1
    record = Operator(site.envoy).record(key)
    timeline = Operator(site.envoy).get(f"/records/{record['id']}")["timeline"]
    assert [e["action"] for e in timeline].count("resolve_completed") == 1


def test_a_contradiction_is_refused(make):
    site = make()
    key = leave_unknown(site)
    event = event_of(site, key)
    assert send(site, {**event, **completed()}).status_code == 200
    for other in (NOT_RUN, completed(status=200), completed(body='{"payment": 2}')):
        answer = send(site, {**event, **other})
        assert (answer.status_code, answer.json()["code"]) == (409, "contradiction"), other
    assert site.send("/pay/", key).body == b'{"payment": 1}'


def test_a_forged_event_changes_nothing(make):
    site = make()
    key = leave_unknown(site)
    event = event_of(site, key, **NOT_RUN)
    forged = {
        "another secret": send(site, event, secret="another secret of a forger"),
        "an empty secret": send(site, event, secret=""),
        "another body": send_webhook(site.envoy, PATH, event, lambda body: generic(SECRET, body + b" ")),
        "no signature": send_webhook(site.envoy, PATH, event),
    }
    for case, answer in forged.items():
        assert answer.status_code == 401, case
    assert forged["no signature"].json()["code"] == "signature_missing"
    assert forged["another body"].json()["code"] == "signature_invalid"
    assert site.state(key) == "unknown"


def test_a_late_or_replayed_event_is_refused(make):
    site = make(tolerance="2s")
    key = leave_unknown(site)
    event = event_of(site, key, **NOT_RUN)
    for at in (time.time() - 3600, time.time() + 3600):
        answer = send(site, event, at=at)
        assert (answer.status_code, answer.json()["code"]) == (401, "signature_late")
    assert site.state(key) == "unknown"
    # One that was accepted is refused when its time is over, byte for byte the same.
    sent_at = time.time()
    assert send(site, event, at=sent_at).status_code == 200
    wait_for(
        lambda: send(site, event, at=sent_at).status_code == 401, "the captured event is refused", deadline=10
    )


def test_keys_are_rotated_without_a_restart(make, secret):
    site = make()
    key = leave_unknown(site)
    event = event_of(site, key, **completed())
    fresh = "a fresh secret, as long as it has to be"
    assert send(site, event, secret=fresh).status_code == 401
    secret.with_suffix(".new").write_text(fresh)
    secret.with_suffix(".new").rename(secret)
    wait_for(lambda: send(site, event, secret=fresh).status_code == 200, "the fresh key counts", deadline=10)
    assert send(site, event).status_code == 401
    # Without its file, a key is not accepted any more.
    secret.unlink()
    wait_for(lambda: send(site, event, secret=fresh).status_code == 401, "the key is gone", deadline=10)


@pytest.mark.parametrize(
    ("name", "sign", "text"),
    [
        ("STRIPE", stripe, "whsec_0123456789abcdef"),
        ("STANDARD_WEBHOOKS", standard, "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0"),
    ],
)
def test_formats_of_providers(make, secret, name, sign, text):
    secret.write_text(text)
    site = make(format=name)
    key = leave_unknown(site)
    event = event_of(site, key, **completed())
    assert send(site, event, sign=sign, secret=text).status_code == 200
    assert send(site, event, sign=generic, secret=text).status_code == 401
    assert site.state(key) == "completed"


def test_unsigned_behind_envoys_own_authentication(make_site):  # noqa: F811
    site = make_site(webhook={"path": PATH, "unsigned": True}, read_only=True)
    key = leave_unknown(site)
    answer = send_webhook(
        site.envoy, PATH, event_of(site, key, **NOT_RUN), lambda body: {ACTOR: "payment-service"}
    )
    assert answer.status_code == 200, answer.text
    assert "webhook:payment-service" in [e["actor"] for e in Operator(site.envoy).get("/audit")["entries"]]


def test_a_running_request_is_not_settled_from_outside(make):
    site = make()
    key = new_key()
    with site.running("/pay/", key) as let_go:
        answer = send(site, event_of(site, key, **completed()))
        assert (answer.status_code, answer.json()["code"]) == (409, "refused")
        assert let_go().status == 200


def test_a_missing_key_file_is_an_error_at_the_start(make, secret):
    secret.unlink()
    with pytest.raises(Exception, match="payments-1"):
        make()
