"""Ten thousand malformed requests, each with the answer that it must get.

case.py      a case: bytes, and what they must lead to
keys.py      Idempotency-Key lines, judged by a parser that is not ours
fields.py    other header fields, the request line, limits
framing.py   HTTP/1.1 lengths, chunks, line ends; requests hidden behind them
bodies.py    bodies that are not what they say
http2.py     frames and header blocks of HTTP/2
client.py    sends cases, reads what comes back
"""
