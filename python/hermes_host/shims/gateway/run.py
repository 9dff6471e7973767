"""The gateway, as plugins look for it: what can be answered without one, and a clear word else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.config import GatewayConfig, Platform, load_gateway_config
from gateway.session import SessionSource, build_session_key
from hermes_host import runtime

NO_GATEWAY = "no gateway runs in this program yet"


class Adapter:
    """An adapter that is not there: it says so."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.is_connected = False

    async def send(self, chat_id: str, content: str, *args: Any, **options: Any) -> Any:
        """Does not send."""
        from gateway.platforms.event import SendResult

        try:
            answer = runtime.call(
                "gateway.send",
                {"platform": self.platform.value, "chat_id": str(chat_id), "content": content},
            )
        except Exception as error:
            return SendResult(success=False, error=str(error) or NO_GATEWAY)
        return SendResult(success=bool(answer.get("success")), error=answer.get("error"))


class Adapters(Mapping[Any, Adapter]):
    """Adapters by platform, the name or the member. Empty without a gateway."""

    def _names(self) -> list[str]:
        return [str(name) for name in runtime.settings.get("platforms") or []]

    def __getitem__(self, key: Any) -> Adapter:
        name = getattr(key, "value", key)
        if name not in self._names():
            raise KeyError(key)
        return Adapter(Platform(str(name)))

    def __iter__(self) -> Iterator[Any]:
        return iter([Platform(name) for name in self._names()])

    def __len__(self) -> int:
        return len(self._names())


class SessionStore:
    """Conversations of chats."""

    def peek_session_id(self, session_key: Any) -> str | None:
        """The session of a conversation, if it has one."""
        if isinstance(session_key, SessionSource):
            session_key = build_session_key(session_key)
        value = runtime.call("gateway.session_id", {"session_key": str(session_key)})
        return str(value) if value else None

    def append_to_transcript(
        self, session_id: str, message: dict[str, Any], **options: Any
    ) -> None:
        """Adds a message to a session."""
        runtime.call("transcript.append", {"session_id": session_id, "message": message})


class GatewayFacade:
    """What plugins reach for on a running gateway."""

    def __init__(self) -> None:
        self.adapters = Adapters()
        self.session_store = SessionStore()
        self.pairing_store = None
        self._running = False

    @property
    def config(self) -> GatewayConfig:
        """The settings of platforms."""
        return load_gateway_config()

    def _session_key_for_source(self, source: SessionSource) -> str:
        config = self.config
        return build_session_key(
            source, config.group_sessions_per_user, config.thread_sessions_per_user
        )

    def _is_user_authorized(self, source: SessionSource) -> bool:
        return bool(runtime.call("gateway.authorized", {"source": source.to_dict()}))

    async def send(self, platform: Any, chat_id: str, content: str, **options: Any) -> Any:
        """Sends a text."""
        return await Adapter(Platform(getattr(platform, "value", platform))).send(chat_id, content)


_facade: GatewayFacade | None = None


def facade() -> GatewayFacade:
    """The one facade."""
    global _facade
    if _facade is None:
        _facade = GatewayFacade()
    return _facade


def _gateway_runner_ref() -> GatewayFacade | None:
    """The running gateway; None where none runs, as in the original's command line."""
    return facade() if runtime.settings.get("gateway") else None
