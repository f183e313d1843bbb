"""Compares what the service believes with what the provider did: orders, receipts and charges.

ledger.py PROVIDER_URL [GRACE]

Prints each difference, then the totals. The exit status is 1 if there is a difference. Payments that are
younger than GRACE seconds (60 by default) may be unfinished. The connection to the database comes from
libpq's variables.
"""

import json
import sys
import urllib.request
from collections import Counter, defaultdict

import psycopg
from psycopg.rows import dict_row


def differences(orders: list[dict], receipts: list[dict], charges: list[dict]) -> list[str]:
    found = []
    charges_of, receipts_of = defaultdict(list), defaultdict(list)
    for charge in charges:
        charges_of[charge["order"]].append(charge)
    for receipt in receipts:
        receipts_of[receipt["order_id"]].append(receipt)

    keys = Counter(order["record"] for order in orders if order["record"])
    found += [f"key {record}: {count} orders" for record, count in keys.items() if count > 1]

    for order in orders:
        name = f"order {order['id']} ({order['state']})"
        made, written = charges_of.pop(order["id"], []), receipts_of.pop(order["id"], [])
        if order["state"] == "open" and not order["young"]:
            found.append(f"{name}: neither paid nor declined")
        expected = 1 if order["state"] == "paid" else 0
        for what, count in (("charges", len(made)), ("receipts", len(written))):
            # What a young order lacks is still to come.
            if not (count <= 1 if order["young"] else count == expected):
                found.append(f"{name}: {count} {what}")
        if order["state"] == "open":
            continue
        for what, amount, charge in (
            *(("the provider", charge["amount"], charge["id"]) for charge in made),
            *(("its receipt", receipt["amount"], receipt["charge"]) for receipt in written),
        ):
            if (amount, charge) != (order["amount"], order["charge"]):
                found.append(
                    f"{name}: {order['amount']}, {order['charge']}; but {what} has {amount}, {charge}"
                )
    found += [
        f"charge {charge['id']}: no order {order}" for order in charges_of for charge in charges_of[order]
    ]
    return found


def main() -> int:
    provider, grace = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    # Before the orders: the order of a charge is there already.
    with urllib.request.urlopen(f"{provider}/charges", timeout=5) as response:
        charges = json.load(response)["charges"]
    with psycopg.connect(row_factory=dict_row) as database:
        # Both tables as they were at one moment.
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        orders = database.execute(
            """
            SELECT id, amount, state, charge, created_at > now() - make_interval(secs => %s) AS young,
              encode(tenant, 'escape') || '/' || encode(operation, 'escape') || '/'
                || encode(key, 'escape') AS record
            FROM payments.orders ORDER BY id
            """,
            [grace],
        ).fetchall()
        receipts = database.execute("SELECT order_id, amount, charge FROM payments.receipts").fetchall()

    found = differences(orders, receipts, charges)
    for line in found:
        print(f"ledger: {line}")
    states = Counter(order["state"] for order in orders)
    shown = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    print(
        f"ledger: {len(orders)} orders ({shown}), {len(charges)} charges, {len(receipts)} receipts: "
        f"{len(found) or 'no'} differences"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
