"""The built-in tools: the one module that imports all of them."""

from __future__ import annotations

from ollm_tui.core.browser.chromium import why_no_browser
from ollm_tui.core.tools.base import AnyTool
from ollm_tui.core.tools.browser import BROWSER
from ollm_tui.core.tools.delete_file import DELETE_FILE
from ollm_tui.core.tools.edit_file import EDIT_FILE
from ollm_tui.core.tools.format_code import FORMAT_CODE
from ollm_tui.core.tools.git_branches import GIT_BRANCH, GIT_CHECKOUT, GIT_PUSH
from ollm_tui.core.tools.git_changing import GIT_ADD, GIT_COMMIT
from ollm_tui.core.tools.git_reading import GIT_BLAME, GIT_DIFF, GIT_LOG, GIT_SHOW, GIT_STATUS
from ollm_tui.core.tools.glob import GLOB
from ollm_tui.core.tools.grep import GREP
from ollm_tui.core.tools.install_package import INSTALL_PACKAGE
from ollm_tui.core.tools.ls import LS
from ollm_tui.core.tools.memory import MEMORY, MEMORY_GET, MEMORY_SEARCH
from ollm_tui.core.tools.move_file import MOVE_FILE
from ollm_tui.core.tools.propose_plan import PROPOSE_PLAN
from ollm_tui.core.tools.read_file import READ_FILE
from ollm_tui.core.tools.read_many_files import READ_MANY_FILES
from ollm_tui.core.tools.run_code import RUN_CODE
from ollm_tui.core.tools.run_tests import RUN_TESTS
from ollm_tui.core.tools.search_code import SEARCH_CODE
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.core.tools.shell_jobs import SHELL_KILL, SHELL_OUTPUT
from ollm_tui.core.tools.task import TASK
from ollm_tui.core.tools.web_fetch import HTTP_FETCH, WEB_FETCH
from ollm_tui.core.tools.web_search import WEB_SEARCH
from ollm_tui.core.tools.write_file import WRITE_FILE
from ollm_tui.core.tools.write_todos import WRITE_TODOS

BUILTIN_TOOLS: tuple[AnyTool, ...] = (
    *(GIT_ADD, GIT_BLAME, GIT_BRANCH, GIT_CHECKOUT, GIT_COMMIT, GIT_DIFF, GIT_LOG, GIT_PUSH, GIT_SHOW, GIT_STATUS),
    BROWSER,
    *(DELETE_FILE, EDIT_FILE, FORMAT_CODE, GLOB, GREP, HTTP_FETCH, INSTALL_PACKAGE, LS),
    *(MEMORY, MEMORY_GET, MEMORY_SEARCH, MOVE_FILE),
    *(
        PROPOSE_PLAN,
        READ_FILE,
        READ_MANY_FILES,
        RUN_CODE,
        RUN_TESTS,
        SEARCH_CODE,
        SHELL,
        SHELL_KILL,
        SHELL_OUTPUT,
        TASK,
        WEB_FETCH,
        WEB_SEARCH,
        WRITE_FILE,
        WRITE_TODOS,
    ),
)


def builtin_tools(*, browser_without_sandbox: bool = False) -> tuple[AnyTool, ...]:
    """Return the built-in tools that work here, for a registry."""
    if why_no_browser(without_sandbox=browser_without_sandbox) is None:
        return BUILTIN_TOOLS
    return tuple(tool for tool in BUILTIN_TOOLS if tool is not BROWSER)
