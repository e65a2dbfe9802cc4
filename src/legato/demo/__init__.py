"""A support desk in the terminal, offline: handoffs, an approval, and a process that is really killed. `python -m legato.demo`."""
