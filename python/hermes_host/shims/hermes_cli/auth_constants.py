"""Signing in: what can go wrong."""

from __future__ import annotations


class AuthError(RuntimeError):
    """Signing in failed."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        code: str | None = None,
        relogin_required: bool = False,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.code = code
        self.relogin_required = relogin_required
