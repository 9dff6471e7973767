"""What an adapter of a chat platform is.

No gateway runs in this program yet: adapters load and register, and wait.
"""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gateway.config import Platform, PlatformConfig
from gateway.platforms.event import (
    EphemeralReply,
    MessageEvent,
    MessageHandler,
    MessageType,
    ProcessingOutcome,
    SendResult,
)
from gateway.session import SessionSource, build_session_key

__all__ = [
    "BasePlatformAdapter",
    "EphemeralReply",
    "MessageEvent",
    "MessageHandler",
    "MessageType",
    "Platform",
    "PlatformConfig",
    "ProcessingOutcome",
    "SendResult",
    "SessionSource",
    "build_session_key",
    "cache_audio_from_bytes",
    "cache_document_from_bytes",
    "cache_image_from_bytes",
    "cache_media_bytes",
    "cache_video_from_bytes",
]


def _cache(kind: str, data: bytes, name: str) -> str:
    from hermes_constants import get_hermes_home

    folder = Path(get_hermes_home()) / "cache" / kind
    folder.mkdir(parents=True, exist_ok=True)
    clean = "".join(c if c.isalnum() or c in "._-" else "_" for c in os.path.basename(name))
    path = folder / f"{uuid.uuid4().hex[:12]}_{clean or 'file'}"
    path.write_bytes(data)
    return str(path)


def cache_media_bytes(data: bytes, filename: str = "file", *args: Any, **options: Any) -> str:
    """Keeps a file that came in, and says where."""
    return _cache("media", data, filename)


def cache_image_from_bytes(data: bytes, ext: str = ".jpg") -> str:
    """Keeps an image that came in, and says where."""
    return _cache("images", data, f"image{ext}")


def cache_audio_from_bytes(data: bytes, ext: str = ".ogg") -> str:
    """Keeps a sound that came in, and says where."""
    return _cache("audio", data, f"audio{ext}")


def cache_video_from_bytes(data: bytes, ext: str = ".mp4") -> str:
    """Keeps a film that came in, and says where."""
    return _cache("videos", data, f"video{ext}")


def cache_document_from_bytes(data: bytes, filename: str) -> str:
    """Keeps a document that came in, and says where."""
    return _cache("documents", data, filename)


class BasePlatformAdapter(ABC):
    """An adapter."""

    MAX_MESSAGE_LENGTH = 4096
    SUPPORTS_MESSAGE_EDITING = True

    def __init__(self, config: PlatformConfig, platform: Platform) -> None:
        self.config = config
        self.platform = platform
        self._message_handler: MessageHandler | None = None
        self._running = False
        self._fatal_error_code: str | None = None
        self._fatal_error_message: str | None = None
        self._active_sessions: dict[str, Any] = {}
        self._background_tasks: set[Any] = set()

    @property
    def name(self) -> str:
        """The platform's name for people."""
        return self.platform.value.title()

    @property
    def is_connected(self) -> bool:
        """Whether it is connected."""
        return self._running

    @property
    def has_fatal_error(self) -> bool:
        """Whether it has given up."""
        return self._fatal_error_message is not None

    def set_message_handler(self, handler: MessageHandler) -> None:
        """Says who takes messages."""
        self._message_handler = handler

    def set_session_store(self, store: Any) -> None:
        """Says where conversations are kept."""
        self._session_store = store

    def _mark_connected(self) -> None:
        self._running = True

    def _mark_disconnected(self) -> None:
        self._running = False

    def _set_fatal_error(self, code: str, message: str, *, retryable: bool = False) -> None:
        self._fatal_error_code = code
        self._fatal_error_message = message
        self._running = False

    def _acquire_platform_lock(self, scope: str, identity: str, description: str = "") -> bool:
        from gateway.status import acquire_scoped_lock

        taken, _ = acquire_scoped_lock(scope, identity, {"platform": self.platform.value})
        self._platform_lock = (scope, identity) if taken else None
        return taken

    def _release_platform_lock(self) -> None:
        from gateway.status import release_scoped_lock

        lock = getattr(self, "_platform_lock", None)
        if lock:
            release_scoped_lock(*lock)
            self._platform_lock = None

    @abstractmethod
    async def connect(self) -> bool:
        """Connects."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Disconnects."""

    @abstractmethod
    async def send(
        self,
        chat_id: str,
        content: str,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        """Sends a text."""

    @abstractmethod
    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        """What is known of a chat."""

    async def edit_message(
        self, chat_id: str, message_id: str, content: str, **options: Any
    ) -> SendResult:
        """Changes a text that was sent."""
        return SendResult(success=False, error="Not supported")

    async def delete_message(self, chat_id: str, message_id: str) -> bool:
        """Takes back a text that was sent."""
        return False

    async def send_typing(self, chat_id: str, metadata: Any = None) -> None:
        """Shows that something is being written."""

    async def stop_typing(self, chat_id: str) -> None:
        """Stops showing it."""

    async def send_image(
        self, chat_id: str, image_url: str, caption: str | None = None, **options: Any
    ) -> SendResult:
        """Sends an image; as its address where the platform has none."""
        text = f"{caption}\n{image_url}" if caption else image_url
        return await self.send(chat_id, text, options.get("reply_to"))

    async def send_image_file(
        self, chat_id: str, image_path: str, caption: str | None = None, **options: Any
    ) -> SendResult:
        """Sends an image that is a file."""
        return await self.send(
            chat_id, f"{caption or 'Image'}: {image_path}", options.get("reply_to")
        )

    async def send_document(
        self, chat_id: str, file_path: str, caption: str | None = None, **options: Any
    ) -> SendResult:
        """Sends a document."""
        return await self.send(
            chat_id, f"{caption or 'File'}: {file_path}", options.get("reply_to")
        )

    async def send_voice(
        self, chat_id: str, audio_path: str, caption: str | None = None, **options: Any
    ) -> SendResult:
        """Sends a voice message."""
        return await self.send(
            chat_id, f"{caption or 'Audio'}: {audio_path}", options.get("reply_to")
        )

    async def send_video(
        self, chat_id: str, video_path: str, caption: str | None = None, **options: Any
    ) -> SendResult:
        """Sends a film."""
        return await self.send(
            chat_id, f"{caption or 'Video'}: {video_path}", options.get("reply_to")
        )

    async def on_processing_start(self, event: MessageEvent) -> None:
        """A message is being handled."""

    async def on_processing_complete(self, event: MessageEvent, outcome: Any) -> None:
        """A message was handled."""

    def build_source(
        self,
        chat_id: str,
        chat_name: str | None = None,
        chat_type: str = "dm",
        user_id: str | None = None,
        user_name: str | None = None,
        thread_id: str | None = None,
        **further: Any,
    ) -> SessionSource:
        """Where a message came from."""
        known = {k: v for k, v in further.items() if k in SessionSource.__dataclass_fields__}
        return SessionSource(
            platform=self.platform,
            chat_id=str(chat_id),
            chat_name=chat_name,
            chat_type=chat_type,
            user_id=str(user_id) if user_id else None,
            user_name=user_name,
            thread_id=str(thread_id) if thread_id else None,
            **known,
        )

    async def handle_message(self, event: MessageEvent) -> None:
        """Hands a message on."""
        if self._message_handler is not None:
            answer = await self._message_handler(event)
            if isinstance(answer, str) and answer and event.source is not None:
                await self.send(event.source.chat_id, answer, event.message_id)

    def format_message(self, content: str) -> str:
        """A text in the platform's own markup."""
        return content

    def truncate_message(self, content: str, max_length: int = 4096, **options: Any) -> list[str]:
        """A text in pieces that the platform takes."""
        pieces = []
        while len(content) > max_length:
            cut = content.rfind("\n", 1, max_length)
            cut = cut if cut > max_length // 2 else max_length
            pieces.append(content[:cut])
            content = content[cut:].lstrip("\n")
        return [*pieces, content]

    def _create_task(self, work: Awaitable[Any]) -> Any:
        import asyncio

        task = asyncio.ensure_future(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)
        return task


AdapterFactory = Callable[[PlatformConfig], BasePlatformAdapter]
