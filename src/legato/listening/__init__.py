"""What every server of ours has in common: `hosts.py` who can reach it, `running.py` how it starts and stops."""
