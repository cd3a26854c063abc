"""The two ways a user's request can fail, each with its exit code.

Every message is one line that names the value, the place and the remedy. The command line prints it without a
traceback; in Python these are ordinary exceptions.
"""


class RegardError(Exception):
    """Something a user can understand and mend went wrong (exit code 1)."""

    exit_code = 1


class UsageError(RegardError):
    """The request itself was wrong: an unknown recipe, key, file or argument (exit code 2)."""

    exit_code = 2
