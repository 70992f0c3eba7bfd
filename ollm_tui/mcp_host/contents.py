"""Results of a server, cut to size; this part knows no connection."""

from __future__ import annotations

import json

import mcp_types as types

from ollm_tui.mcp_host.frames import MAX_PICTURE_DATA, MAX_RESULT, Picture

Returned = types.CallToolResult | types.ReadResourceResult | types.GetPromptResult


def text_of(returned: Returned) -> str:
    """Return a tool's result, a resource or a prompt as text."""
    match returned:
        case types.CallToolResult():
            text = "\n".join(map(_block_text, returned.content))
            if not text and returned.structured_content is not None:
                text = json.dumps(returned.structured_content, ensure_ascii=False)
        case types.ReadResourceResult():
            text = "\n".join(map(_resource_text, returned.contents))
        case types.GetPromptResult():
            text = "\n\n".join(map(_message_text, returned.messages))
    if len(text) <= MAX_RESULT:
        return text
    half = MAX_RESULT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def pictures_of(returned: Returned) -> tuple[Picture, ...]:
    """Return the pictures of a tool's result as far as there is room, in their order."""
    if not isinstance(returned, types.CallToolResult):
        return ()
    pictures: list[Picture] = []
    room = MAX_PICTURE_DATA
    for block in returned.content:
        if isinstance(block, types.ImageContent) and len(block.data) <= room:
            room -= len(block.data)
            pictures.append(Picture(media_type=block.mime_type, data=block.data))
    return tuple(pictures)


def _block_text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type}, {block.mime_type}, {_size(block.data)}]"
        case types.ResourceLink():
            return f"[resource {block.uri}: {block.name}]"
        case types.EmbeddedResource():
            return f"[resource {block.resource.uri}]\n{_resource_text(block.resource)}"


def _resource_text(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.TextResourceContents):
        return resource.text
    return f"[{resource.mime_type or 'no text'}, {_size(resource.blob)}, not shown]"


def _message_text(message: types.PromptMessage) -> str:
    text = _block_text(message.content)
    return text if message.role == "user" else f"[{message.role}]\n{text}"


def _size(encoded: str) -> str:
    return f"{len(encoded) * 3 // 4:,} bytes"
