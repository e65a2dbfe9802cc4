"""What runs a workflow: sessions, runs, the driver and the ledger."""
