"""The outline of a page: its headings and what can be operated, each with a short ref, in few characters."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from ollm_tui.core.base.errors import FetchFailed
from ollm_tui.core.base.escape import visible

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, JSHandle

MAX_CHARACTERS = 6_000
MAX_ELEMENTS = 100_000
"""Elements of a page that an outline is made of; larger ones are read by selector alone."""
MAX_LINES = 2_000
MAX_FRAMES = 5
NEAREST = 5

REF = re.compile(r"e[1-9][0-9]{0,5}")

# Runs in the page. Names are as a screen reader would say them, or nearly; nothing of the page's own is changed.
_COLLECT = """([maxElements, maxLines]) => {
  const total = document.getElementsByTagName('*').length;
  if (total > maxElements) return {total, lines: [], elements: []};
  const operated = 'a[href],button,input:not([type=hidden]),select,textarea,summary,[contenteditable=""],' +
    '[contenteditable=true],[onclick],[tabindex]:not([tabindex="-1"]),[role=button],[role=link],[role=checkbox],' +
    '[role=radio],[role=tab],[role=menuitem],[role=option],[role=switch],[role=combobox],[role=textbox],[role=slider]';
  const headings = 'h1,h2,h3,h4,h5,h6,[role=heading]';
  const short = text => (text || '').slice(0, 400).replace(/\\s+/g, ' ').trim().slice(0, 100);
  const roleOf = el => el.getAttribute('role') || {
    A: 'link', BUTTON: 'button', SELECT: 'listbox', TEXTAREA: 'textbox', SUMMARY: 'summary',
    INPUT: {checkbox: 'checkbox', radio: 'radio', button: 'button', submit: 'button', reset: 'button', image: 'button',
      range: 'slider', file: 'file', password: 'password'}[el.type] || 'textbox',
  }[el.tagName] || (el.isContentEditable ? 'textbox' : 'element');
  const nameOf = el => {
    const by = (el.getAttribute('aria-labelledby') || '').split(' ').map(id => id && document.getElementById(id));
    const image = el.querySelector('img[alt],svg title');
    return short(el.getAttribute('aria-label')) || short(by.map(one => one ? one.textContent : '').join(' ')) ||
      short(el.labels && el.labels.length ? el.labels[0].textContent : '') ||
      (el.tagName === 'INPUT' && /^(button|submit|reset)$/.test(el.type) ? short(el.value || el.type) : '') ||
      (/^(INPUT|SELECT|TEXTAREA)$/.test(el.tagName) ? '' : short(el.textContent)) ||
      short(el.placeholder || el.title || el.alt || el.name) ||
      short(image ? image.getAttribute('alt') || image.textContent : '');
  };
  const lines = [], elements = [];
  const collect = root => {
    for (const el of root.querySelectorAll('*')) {
      if (lines.length >= maxLines) return;
      if (el.shadowRoot) collect(el.shadowRoot);
      const isHeading = el.matches(headings);
      if (!isHeading && !el.matches(operated)) continue;
      if (!el.checkVisibility({visibilityProperty: true})) continue;
      if (isHeading) {
        const level = Number(el.getAttribute('aria-level') || el.tagName[1]) || 2;
        const name = short(el.textContent);
        lines.push({heading: level, index: -1, role: 'heading', name, state: '', disabled: false});
        continue;
      }
      const role = roleOf(el);
      let state = '';
      if (role === 'checkbox' || role === 'radio' || role === 'switch')
        state = el.checked || el.getAttribute('aria-checked') === 'true' ? 'checked' : 'not checked';
      else if (el.tagName === 'SELECT') state = short([...el.selectedOptions].map(one => one.label).join(', '));
      else if (role === 'textbox' || role === 'slider') state = short(el.value);
      else if (role === 'link' && el.tagName === 'A') state = short(el.getAttribute('href'));
      elements.push(el);
      lines.push({heading: 0, index: elements.length - 1, role, name: nameOf(el), state, disabled: !!el.disabled});
    }
  };
  collect(document);
  return {total, lines, elements};
}"""


# As text: Playwright takes 0.7 s to bring over 1,000 objects.
_READ = "held => JSON.stringify({total: held.total, lines: held.lines})"


class _Line(BaseModel):
    heading: int
    """Its level; 0 for what can be operated."""
    index: int
    role: str
    name: str
    state: str
    disabled: bool


class _Collected(BaseModel):
    total: int
    lines: list[_Line]

    @classmethod
    def of(cls, text: object) -> _Collected:
        """Read what the page returned, which its scripts may have had a hand in. Raises FetchFailed."""
        try:
            return cls.model_validate_json(text if isinstance(text, str) else "")
        except ValidationError:
            raise FetchFailed("The page's scripts disturb its outline. Read it with action=text.") from None


@dataclass(frozen=True)
class OutlineElement:
    """Something on the page that can be operated."""

    ref: str
    role: str
    name: str
    held: JSHandle
    """The outline of its frame, in the page."""
    index: int

    @property
    def text(self) -> str:
        """How it is named for a person and the model."""
        return f'{self.ref} {self.role} "{self.name}"' if self.name else f"{self.ref} {self.role}"

    async def element(self) -> ElementHandle | None:
        """Return the element; it may have left the page since."""
        return (await self.held.evaluate_handle("(held, index) => held.elements[index]", self.index)).as_element()


class Outline:
    """What an outline's refs stand for; empty before the first page."""

    def __init__(self) -> None:
        self.elements: dict[str, OutlineElement] = {}
        self.text = ""

    @classmethod
    async def of(cls, frames: Sequence[Frame]) -> Outline:
        """Return the outline of a page's frames, the first being the page itself."""
        outline, lines = cls(), list[str]()
        for number, frame in enumerate(frames[: MAX_FRAMES + 1]):
            held = await frame.evaluate_handle(_COLLECT, [MAX_ELEMENTS, MAX_LINES])
            collected = _Collected.of(await held.evaluate(_READ))
            total, shown = collected.total, outline._lines_of(collected.lines, held)
            if total > MAX_ELEMENTS:
                shown = [f"[{total:,} elements: too many for an outline; read a part with action=text and a selector]"]
            if number and shown:
                shown = [f"frame {visible(frame.url)[:200]}:", *shown]
            lines += shown
        outline.text = _cut(lines)
        return outline

    def nearest(self, wanted: str) -> list[str]:
        """Return the elements whose names are nearest to a selector that found nothing."""
        words = " ".join(re.findall(r"\w+", wanted)).casefold()

        def likeness(element: OutlineElement) -> float:
            said = f"{element.role} {element.name}".casefold()
            common = len(set(words.split()) & set(said.split()))
            return common + difflib.SequenceMatcher(None, words, said).quick_ratio()

        return [each.text for each in sorted(self.elements.values(), key=likeness, reverse=True)[:NEAREST]]

    def _lines_of(self, found: Sequence[_Line], held: JSHandle) -> list[str]:
        lines: list[str] = []
        for each in found:
            name = visible(each.name).replace('"', "'")
            if each.heading:
                if name:
                    lines.append(f"{'#' * min(6, max(1, each.heading))} {name}")
                continue
            element = OutlineElement(f"e{len(self.elements) + 1}", visible(each.role), name, held, each.index)
            self.elements[element.ref] = element
            state = visible(each.state)
            lines.append(f"{element.text}{f' = {state}' if state else ''}{' (disabled)' if each.disabled else ''}")
        return lines


def _cut(lines: Sequence[str]) -> str:
    """Return head and tail of what is too long, with the number of lines left out between."""
    whole = "\n".join(lines)
    if len(whole) <= MAX_CHARACTERS:
        return whole
    room = MAX_CHARACTERS - 100
    head, tail = list[str](), list[str]()
    used = 0
    for one in lines:
        if used + len(one) + 1 > room * 0.7:
            break
        head.append(one)
        used += len(one) + 1
    for one in reversed(lines[len(head) :]):
        if used + len(one) + 1 > room:
            break
        tail.insert(0, one)
        used += len(one) + 1
    left_out = len(lines) - len(head) - len(tail)
    return "\n".join((*head, f"[... {left_out} lines left out; action=text with a selector reads a part ...]", *tail))
