"""What all commands share: exit codes, the option --debug, how they speak, and how a command line is run."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from apps.arguments import ClickException, UsageError

OK, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def save_report(path: Path | None, report: Mapping[str, Any]) -> None:
    """Write figures as JSON where ``--json`` names a file; its folder is made."""
    if path is not None:
        from apps.outputs import write_atomic

        write_atomic(path, [json.dumps(report, indent=1) + "\n"])


def missing(error: ImportError, extra: str) -> Exception:
    return ClickException(f"{error}; run: pip install 'docvision[{extra}]'")


def show(text: str) -> None:
    """To standard output, now, so that a failure is this command's and not the interpreter's."""
    print(text, flush=True)


def say(message: str, program: str = "docvision") -> None:
    print(f"{program}: {' '.join(message.split())}", file=sys.stderr)


def _on_terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # the same way out as Ctrl-C: outputs whole, no temporary files


def run(
    command: Callable[..., Any], program: str, given: Sequence[str], extra: str = "", interrupted: str = "interrupted"
) -> int:
    """Run a command line and return its exit code; never a traceback unless ``--debug`` asks for one.

    Args:
        command: Typer's or Click's.
        program: its name, which stands before every message.
        given: the arguments.
        extra: what to install where a package is missing; empty where the commands say so themselves.
        interrupted: what to say after Ctrl-C.
    """
    try:
        signal.signal(signal.SIGTERM, _on_terminate)
        result = command(given, prog_name=program, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        if result == INTERRUPTED:  # Typer has caught Ctrl-C
            raise KeyboardInterrupt
        return result if isinstance(result, int) else OK
    except (KeyboardInterrupt, typer.Abort):
        say(interrupted, program)
        return INTERRUPTED
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help, in many lines
            print(error.format_message(), file=sys.stderr)
        else:
            say(error.format_message(), program)
        return USAGE
    except ClickException as error:
        say(error.format_message(), program)
        return FAILED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads it any more; nothing is left to flush
        return FAILED
    except Exception as error:
        if "--debug" in given:
            raise
        say(_reason(error, extra), program)
        return FAILED


def _reason(error: Exception, extra: str) -> str:
    """One line; an error of the operating system without its number, one of a nameless file is standard output's."""
    if isinstance(error, ImportError) and extra:
        return f"{error}; run: pip install 'docvision[{extra}]'"
    if not isinstance(error, ValueError | OSError | ImportError):
        return f"internal error: {type(error).__name__}: {error} (--debug shows more)"
    if isinstance(error, OSError) and error.strerror:
        if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        sys.stdout = None  # what is left in it cannot be written either
        return f"standard output was not written ({error.strerror})"
    return str(error)
