"""Errors a tool call can end in: type, code and slug of each in one table (contract section 1, 001 R12)."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import JsonValue


class Slug(StrEnum):
    """004's coarse classes of failure."""

    NOT_FOUND = "not_found"
    VALIDATION_ERROR = "validation_error"
    POLICY_DENIED = "policy_denied"
    SECURITY = "security"
    EXECUTION_ERROR = "execution_error"


class ToolFailure(Exception):  # noqa: N818  # the name that plug-ins rely on (contract section 7)
    """A call that failed; the executor turns it into a result.

    `type` is the wire name, `code` 003's code. `message` says what happened, to what, and what to do next;
    `details` are for programs. `partial` is output produced before the failure.
    """

    type: ClassVar[str] = "InternalError"
    code: ClassVar[str] = "INTERNAL"
    slug: ClassVar[Slug] = Slug.EXECUTION_ERROR

    def __init_subclass__(cls, type: str = "", code: str = "", slug: Slug | None = None) -> None:  # noqa: A002  # the word of the wire
        cls.type, cls.code, cls.slug = type or cls.type, code or cls.code, slug or cls.slug

    def __init__(self, message: str, details: Mapping[str, JsonValue] | None = None, *, partial: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, JsonValue] = dict(details or {})
        self.partial = partial


class InvalidArguments(ToolFailure, type="ValidationError", code="INVALID_ARGUMENTS", slug=Slug.VALIDATION_ERROR):
    """Arguments that do not fit the tool's parameters; names every error at once."""


class ToolNotFound(ToolFailure, type="ToolNotFoundError", code="TOOL_NOT_FOUND", slug=Slug.NOT_FOUND):
    """No tool of that name; the message names the closest ones."""


class InvalidPath(ToolFailure, type="InvalidPathError", code="INVALID_PATH", slug=Slug.SECURITY):
    """A path outside the workspace, malformed, or leading to something that is no regular file."""


class FileNotFound(ToolFailure, type="FileNotFoundError", code="FILE_NOT_FOUND"):
    """Nothing there under that path."""


class FileExists(ToolFailure, type="FileExistsError", code="FILE_EXISTS"):
    """Something is there already and may not be replaced."""


class NoPermission(ToolFailure, type="PermissionError", code="PERMISSION_DENIED"):
    """The operating system refused access."""


class IsADirectory(ToolFailure, type="IsADirectoryError", code="IS_A_DIRECTORY"):
    """A directory where a file is needed."""


class NotADirectory(ToolFailure, type="NotADirectoryError", code="NOT_A_DIRECTORY"):
    """Something else where a directory is needed."""


class FileTooLarge(ToolFailure, type="FileTooLargeError", code="FILE_TOO_LARGE"):
    """A whole file over the limit; a range of it can be read."""


class BinaryFile(ToolFailure, type="BinaryFileError", code="BINARY_FILE"):
    """Bytes that are no text; the message says what they look like."""


class EncodingFailure(ToolFailure, type="EncodingError", code="ENCODING_ERROR"):
    """Text that the file's encoding cannot hold, or bytes that it cannot be."""


class NoSpace(ToolFailure, type="NoSpaceError", code="NO_SPACE"):
    """The disk or the quota is full; the old content stays."""


class FileChanged(ToolFailure, type="FileChangedError", code="FILE_CHANGED"):
    """The file is no longer what the person was shown."""


class FileReadFailed(ToolFailure, type="FileReadError", code="IO_ERROR"):
    """Reading failed for a reason none of the others names."""


class FileWriteFailed(ToolFailure, type="FileWriteError", code="IO_ERROR"):
    """Writing failed for a reason none of the others names."""


class FileEditFailed(ToolFailure, type="FileEditError", code="IO_ERROR"):
    """Editing failed for a reason none of the others names."""


class GlobFailed(ToolFailure, type="GlobError", code="IO_ERROR"):
    """Listing files failed for a reason none of the others names."""


class GrepFailed(ToolFailure, type="GrepError", code="IO_ERROR"):
    """Searching failed for a reason none of the others names."""


class LsFailed(ToolFailure, type="LsError", code="IO_ERROR"):
    """Listing a directory failed for a reason none of the others names."""


class EditTargetNotFound(ToolFailure, type="EditTargetNotFound", code="EDIT_TARGET_NOT_FOUND"):
    """An edit's target is not in the file (000 Property 14)."""


class EditTargetAmbiguous(ToolFailure, type="EditTargetAmbiguous", code="EDIT_TARGET_AMBIGUOUS"):
    """An edit's target is in the file more than once (000 Property 15)."""


class EditNoChange(ToolFailure, type="EditNoChange", code="EDIT_NO_CHANGE"):
    """An edit that replaces a text by itself."""


class ShellExecutionFailed(ToolFailure, type="ShellExecutionError", code="EXECUTION_ERROR"):
    """A command ended with a non-zero exit code or could not be started."""


class ShellTimeout(ToolFailure, type="ShellTimeoutError", code="TIMEOUT"):
    """A command ran longer than its limit and was ended."""


class ShellIdleTimeout(ToolFailure, type="ShellIdleTimeoutError", code="TIMEOUT"):
    """A command was silent longer than its limit and was ended."""


class ToolTimeout(ToolFailure, type="ToolTimeoutError", code="TIMEOUT"):
    """A tool ran longer than the executor allows."""


class HttpFailure(ToolFailure, type="HttpError", code="HTTP_ERROR"):
    """A web server answered with a status of 400 or more."""


class FetchFailed(ToolFailure, type="FetchError", code="NETWORK_ERROR"):
    """A web request got no answer."""


class FetchTimeout(ToolFailure, type="FetchTimeoutError", code="TIMEOUT"):
    """A web request took longer than its limit."""


class UrlNotAllowed(ToolFailure, type="UrlNotAllowedError", code="URL_NOT_ALLOWED"):
    """An address that is never fetched, whatever anybody approves."""


class SearchFailed(ToolFailure, type="SearchError", code="SEARCH_ERROR"):
    """A web search got no usable answer."""


class MemoryFailed(ToolFailure, type="MemoryError", code="MEMORY_ERROR"):
    """A memory call that cannot be carried out."""


class TodoFailed(ToolFailure, type="TodoError", code="TODO_ERROR"):
    """A todo call that cannot be carried out; names the valid ids."""


class StorageFailed(ToolFailure, type="StorageError", code="STORAGE_ERROR"):
    """The database could not be read or written."""


class PolicyDenied(ToolFailure, type="PolicyDeniedError", code="POLICY_DENIED", slug=Slug.POLICY_DENIED):
    """The policy does not allow the call."""


class ConfirmationDenied(ToolFailure, type="ConfirmationDenied", code="USER_DENIED"):
    """A person said no; the message is the person's reason, word for word, where there is one."""


class ConfirmationTimeout(ToolFailure, type="ConfirmationTimeout", code="CONFIRMATION_TIMEOUT"):
    """Nobody answered in time."""

    def __init__(self, message: str = "Confirmation request timed out") -> None:
        super().__init__(message)


class ConfirmationCancelled(ToolFailure, type="ConfirmationCancelled", code="CANCELLED"):
    """The question was withdrawn before it was answered."""

    def __init__(self, message: str = "Confirmation request cancelled") -> None:
        super().__init__(message)


class TaskFailed(ToolFailure, type="TaskError", code="TASK_FAILED"):
    """A sub-agent came to no result; says why, and what it had said."""


class McpFailed(ToolFailure, type="McpError", code="MCP_ERROR"):
    """An MCP server that is not there, or one that says that its tool failed."""


class OperationCancelled(ToolFailure, type="OperationCancelled", code="CANCELLED"):
    """The work was given up; `partial` is what it had produced (001 R12.4)."""

    def __init__(self, reason: str | None = None, *, partial: str = "") -> None:
        super().__init__(f"Cancelled: {reason}" if reason else "Cancelled before it was done", partial=partial)


class SandboxUnavailable(ToolFailure, type="SandboxUnavailableError", code="SANDBOX_UNAVAILABLE"):
    """The sandbox the policy asks for does not work here; nothing was run."""


class Internal(ToolFailure, type="InternalError", code="INTERNAL"):
    """A defect of ours; the log has the traceback."""


ERROR_TABLE: Mapping[str, type[ToolFailure]] = {failure.type: failure for failure in ToolFailure.__subclasses__()}
"""Every error type that can stand in a result, by its wire name."""


def from_os_error(error: OSError, shown_path: str, otherwise: type[ToolFailure]) -> ToolFailure:
    """Return the failure for an operating-system error; `otherwise` is the tool's own type for an unnamed one."""
    reason = error.strerror or str(error)
    details: dict[str, JsonValue] = {"path": shown_path, "reason": reason}
    match error.errno:
        case errno.ENOENT:
            return FileNotFound(f"{shown_path}: no such file or directory. Check the path with ls or glob.", details)
        case errno.EEXIST:
            return FileExists(f"{shown_path}: exists already.", details)
        case errno.EISDIR:
            return IsADirectory(f"{shown_path} is a directory. Use ls to list it.", details)
        case errno.ENOTDIR:
            return NotADirectory(f"{shown_path}: a part of the path is not a directory.", details)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return NoPermission(f"{shown_path}: {reason}. Ask the person to change its permissions.", details)
        case errno.EFBIG:
            limit = "Nothing was changed; files may not get this large here (ulimit -f). Write a smaller one."
            return NoSpace(f"{shown_path}: {reason}. {limit}", details)
        case errno.ENOSPC | errno.EDQUOT:
            return NoSpace(f"{shown_path}: {reason}. Nothing was changed; free some space first.", details)
        case errno.ELOOP:
            return InvalidPath(f"{shown_path}: {reason}.", details)
        case _:
            return otherwise(f"{shown_path}: {reason}.", details)
