"""What a tool that does not run tells its model. May know: nothing. Decides: nothing."""

from legato.errors import LegatoError


class BadArguments(LegatoError, ValueError):
    """A model's arguments do not fit the tool. The message is written for that model; the tool did not run."""

    code = "bad_arguments"
