"""Many gateways in virtual time (`make scale`): the real lanes, leases, claims, take-overs and roles of a hundred gateways on
one store, which stands for PostgreSQL.

What is real: everything in `runs/` that decides who carries out what, `PostgresMembership` and `take_over` with their own
statements, the rules of the ledger (submit, claim, end) and their statements. What stands in: SQLite for the server, whose
transactions are carried out one after the other, a clock that jumps, and `DatabaseServer`, which says how long the server
would have been busy. Not in it: locks that gateways wait for, models, channels, clients, and what gateways say to each other.
"""
