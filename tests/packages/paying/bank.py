"""Payments as lines of a file."""

import duly

LINES = {"type": "object", "properties": {"lines": {"type": "array"}}, "required": ["lines"]}


@duly.tool(effect="write", resource="file:payments", idempotency="key", output_schema={"type": "object"})
def pay(to: str, amount: float, call):
    """Pays an amount, once for each key."""
    line = f"{call.idempotency_key} {to} {amount:g}"
    file = call.data / "payments"
    call.data.mkdir(parents=True, exist_ok=True)
    if not file.exists() or line not in file.read_text().splitlines():
        with open(file, "a") as payments:
            payments.write(f"{line}\n")
    return {"to": to}


@duly.tool(effect="read", output_schema={"type": "object"})
def paid(to: str, call):
    """Whom a payment went to, as it is written down."""
    lines = (call.data / "payments").read_text().splitlines()
    return {"to": next(line.split()[1] for line in lines if line.split()[1] == to)}
