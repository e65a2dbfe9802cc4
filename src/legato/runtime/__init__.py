"""The runtime of workflows: sessions, runs, the driver and the ledger."""
