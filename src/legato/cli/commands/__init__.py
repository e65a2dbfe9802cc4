"""The subcommands of `legato`, one module for one or a few related ones."""
