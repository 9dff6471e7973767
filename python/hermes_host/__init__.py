"""The process in which Python plugins run.

The runtime starts it, speaks JSON-RPC with it over two pipes, and owns order, deadlines and
refusals. This side owns what only Python can do: importing plugins, narrowing payloads to a
callback's signature, awaiting coroutines, and real classes in place of names that plugins import.
"""

PROTOCOL = 1
"""The version of the protocol that both sides must speak."""

COMPATIBLE = "0.22.2"
"""The version of the original whose plugin interface is offered here."""
