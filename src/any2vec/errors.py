"""Every error that any2vec raises on purpose.

    Any2VecError
    ├── InputError       a flag, an option or an argument is not legal           (also a ValueError)
    │   └── UnknownKeyError  embeddings have no such key                         (also a KeyError)
    ├── DataError        a file or a stream holds what cannot be read            (also a ValueError)
    ├── StorageError     a folder or file cannot be written, or is taken         (also an OSError)
    ├── FormatError      a folder or file is not any2vec's, too new, or damaged  (also a ValueError)
    └── HostError        a host is lost or silent
        ├── JobError     hosts do not run the same job, or one was given bad input
        └── MessageError what a host sent arrived damaged
    KeyboardInterrupt
    └── Interrupted      Ctrl-C, SIGTERM or SIGHUP; what was trained is in a checkpoint

A message is one sentence or two: what was expected, what came (file and line for data), and what to do.
The command line prints the message alone and ends with exit code 2 (Interrupted: 130).
"""


class Any2VecError(Exception):
    """Root of the tree; catching it catches whatever any2vec raises on purpose, but a stop that was asked for."""


class InputError(Any2VecError, ValueError):
    """An option or argument is not legal; the message gives the legal interval."""


class UnknownKeyError(InputError, KeyError):
    """Embeddings have no such key; a KeyError, too, for they are asked as a dict is."""

    __str__ = Exception.__str__  # a KeyError would quote the sentence


class DataError(Any2VecError, ValueError):
    """Input data cannot be read; the message names file and line where they are known."""


class StorageError(Any2VecError, OSError):
    """An output cannot be written: it exists, is not writable, or the disk is full."""


class FormatError(Any2VecError, ValueError):
    """Stored data is not in a format that this version reads, or is damaged."""


class HostError(Any2VecError):
    """A host is lost, silent, or does not run the same job as the others; the message names its rank."""

    is_lasting = False
    """another try would end alike"""


class JobError(HostError):
    """Hosts do not run the same job, or a host was given bad input: another try would end alike."""

    is_lasting = True


class MessageError(HostError):
    """A message between hosts was cut short or damaged."""


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop; its checkpoint holds the work done so far. No `except Exception` goes on behind it."""
